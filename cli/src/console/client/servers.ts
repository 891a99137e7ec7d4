import type { ClientValise, ConnectionInfo, JarEntry, PendingRound } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import type { KeptSession } from 'mcp-valise/internal';
import { type CliTarget, nameOfKept, parseKept } from '../../connection/target.ts';
import { identityOf } from '../../output/client-events.ts';

/** Everything that the store keeps for one principal. */
export interface Kept {
  readonly entries: readonly JarEntry[];
  readonly sessions: readonly KeptSession[];
  readonly rounds: readonly PendingRound[];
  readonly connections: readonly ConnectionInfo[];
}

/** One server, as the page lists it. */
export interface ServerRow {
  /** Identifies it in requests of the page. */
  readonly id: string;
  readonly name: string;
  /** The server's name under which its jar is kept. */
  readonly jarName: string;
  readonly address: string | undefined;
  readonly kind: 'http' | 'stdio' | undefined;
  readonly protocol: string | undefined;
  readonly principal: string | undefined;
  readonly transportSession: string | undefined;
  readonly sessions: number;
  readonly signedIn: boolean;
  readonly tokenExpiresAt: Date | undefined;
  readonly renewable: boolean;
  readonly jar: { readonly entries: number; readonly bytes: number; readonly fullest: number };
  readonly questions: number;
  readonly lastSeen: number | undefined;
}

/** Reads everything that the store keeps, including what other processes have stored since. */
export async function readKept(valise: ClientValise): Promise<Kept> {
  await valise.jar.refresh();
  const [sessions, rounds, connections] = await Promise.all([
    valise.sessions.kept(),
    valise.pending.list(),
    valise.connections.list(),
  ]);
  return { entries: valise.jar.list(), sessions, rounds, connections };
}

/** Returns the servers that the store knows, and those given on the command line. */
export function serversIn(kept: Kept, given: readonly string[], principal: string | undefined): ServerRow[] {
  const targets = new Set([
    ...given,
    ...kept.connections.map(({ target }) => target),
    ...kept.sessions.map(({ target }) => target),
    ...kept.rounds.map(({ server }) => server).filter((server) => server !== 'unknown:'),
  ]);
  const jars = new Map<string, JarEntry[]>();
  for (const entry of kept.entries) {
    const own = jars.get(entry.server);
    if (own) own.push(entry);
    else jars.set(entry.server, [entry]);
  }
  const rows = [...targets].map((target) => rowOf(target, kept, jars, principal));
  const covered = new Set(rows.map(({ jarName }) => jarName));
  for (const [name, own] of jars) if (!covered.has(name)) rows.push(rowOfJar(name, own, principal));
  return rows.sort((one, other) => (other.lastSeen ?? 0) - (one.lastSeen ?? 0));
}

/** Returns the target of a server that the page names. The page cannot name a server that is not known here. */
export function targetFor(id: string, servers: readonly ServerRow[]): CliTarget {
  const row = servers.find((each) => each.id === id);
  if (row?.kind) return parseKept(id);
  throw new ValiseError('not-found', 'The console does not know where this server is.', {
    next: 'Start it with the address: valise console TARGET --write',
  });
}

function rowOf(
  target: string,
  kept: Kept,
  jars: ReadonlyMap<string, readonly JarEntry[]>,
  principal: string | undefined,
): ServerRow {
  const parsed = parseKept(target);
  const jarName = identityOf(parsed, true).name;
  const connection = kept.connections.find((each) => each.target === target);
  const sessions = kept.sessions.filter((each) => each.target === target);
  const rounds = kept.rounds.filter(({ server }) => server === target);
  const own = jars.get(jarName) ?? [];
  return {
    id: target,
    name: connection?.server?.name ?? jarName,
    jarName,
    address: nameOfKept(target),
    kind: parsed.kind,
    protocol: connection?.protocolVersion,
    principal,
    transportSession: connection?.session,
    sessions: sessions.length,
    signedIn: connection?.signedIn ?? false,
    tokenExpiresAt: connection?.tokenExpiresAt,
    renewable: connection?.renewable ?? false,
    jar: jarOf(own),
    questions: rounds.length,
    lastSeen: latest([
      connection?.savedAt,
      ...sessions.map(({ usedAt }) => usedAt),
      ...own.map(({ usedAt }) => usedAt),
      ...rounds.map(({ since }) => since),
    ]),
  };
}

function rowOfJar(name: string, own: readonly JarEntry[], principal: string | undefined): ServerRow {
  return {
    id: `jar:${name}`,
    name,
    jarName: name,
    address: undefined,
    kind: undefined,
    protocol: undefined,
    principal,
    transportSession: undefined,
    sessions: 0,
    signedIn: false,
    tokenExpiresAt: undefined,
    renewable: false,
    jar: jarOf(own),
    questions: 0,
    lastSeen: latest(own.map(({ usedAt }) => usedAt)),
  };
}

/** The quota is for each scope of a server, so the fuller scope counts. */
function jarOf(entries: readonly JarEntry[]): ServerRow['jar'] {
  const inScope = (scope: string): number => entries.filter((each) => each.scope === scope).length;
  return {
    entries: entries.length,
    bytes: entries.reduce((sum, { size }) => sum + size, 0),
    fullest: Math.max(inScope('session'), inScope('server')),
  };
}

function latest(times: readonly (Date | undefined)[]): number | undefined {
  const known = times.flatMap((time) => (time ? [time.getTime()] : []));
  return known.length === 0 ? undefined : known.reduce((one, other) => Math.max(one, other));
}

import { randomBytes } from 'node:crypto';
import type { SessionMeta } from '../../wire/index.ts';
import { beginningRow, notBegun, prepare } from './beginning.ts';
import { type Data, SessionData } from './data.ts';
import type { Endings } from './endings.ts';
import { valuesOf } from './handle.ts';
import { type Held, type Keeping, type Requester, rowOf } from './held.ts';
import type { NewSession } from './hooks.ts';
import type { SessionsSettings } from './options.ts';
import type { Found, Registry } from './registry.ts';
import { roomFor } from './room.ts';

/** The initial values of a new session. */
export interface Beginning {
  readonly label?: string | undefined;
  readonly data?: Data | undefined;
  /** The id of the session that it is forked from. */
  readonly parent?: string | undefined;
}

/** The services that creating a session needs. */
export interface Cradle {
  readonly settings: SessionsSettings;
  readonly registry: Registry;
  readonly endings: Endings;
  readonly keeping: Keeping;
}

/** Creates a session: takes its place in the owner's list, calls `onCreate`, and writes its first state. */
export async function createSession(
  { settings, registry, endings, keeping }: Cradle,
  requester: Requester,
  { label, data = {}, parent }: Beginning,
): Promise<SessionMeta> {
  endings.checkRoom();
  const id = `sess-${randomBytes(18).toString('base64url')}`;
  const { shelf, places, caps } = roomFor(settings, requester, { id, implicit: false, parent });
  const held: Held = {
    ...lifetime(settings, requester),
    id,
    owner: requester.owner,
    shelf,
    places,
    label,
    seq: 0,
    data: new SessionData(data, settings),
    version: requester.version,
    found: undefined,
  };
  const { onCreate } = settings;
  const first = onCreate ? undefined : await keeping.begin(held, requester);
  // The place is taken first: an author must not allocate resources for a session that finds no place.
  const { added, crowded } = await registry.add(first?.row ?? beginningRow(held), caps);
  await endings.watch(held, added.row.expires);
  for (const old of crowded) await endings.end(old, 'evicted');
  if (first) return first.meta;
  let ready: Found;
  try {
    const begin = (): void | Promise<void> => onCreate?.(newSession(held, { implicit: false, parent }));
    ready = await prepare({ registry, endings }, added, begin);
  } catch (error) {
    await registry.drop(held);
    throw error;
  }
  const { meta, row } = await keeping.begin(held, requester).catch(async (error: unknown) => {
    await endings.endUnborn(rowOf(held, null));
    throw error;
  });
  if ((await registry.save(row, ready)) !== undefined) return meta;
  throw notBegun(await endings.endUnborn(row));
}

/** Returns when a session begins and ends. */
export function lifetime(
  { ttl, sliding, maxLifetime, maxAnonymousLifetime }: SessionsSettings,
  { subject }: Requester,
): Pick<Held, 'created' | 'expires' | 'until'> {
  const created = Date.now();
  const longest = subject === undefined ? maxAnonymousLifetime : maxLifetime;
  const until = created + Math.min(longest, sliding ? longest : ttl) * 1000;
  return { created, until, expires: Math.min(until, created + ttl * 1000) };
}

/** Returns the argument of `onCreate`. */
export function newSession(
  { id, label, expires, data }: Held,
  { implicit, parent }: { readonly implicit: boolean; readonly parent: string | undefined },
): NewSession {
  const open = (): boolean => false;
  return {
    ...valuesOf(data, '', open),
    id,
    label,
    expiresAt: new Date(expires),
    implicit,
    parent,
    namespace: (name) => valuesOf(data, name, open),
  };
}

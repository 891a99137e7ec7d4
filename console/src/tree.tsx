import { useMemo } from 'preact/hooks';
import { shortName } from './format.ts';
import { useWindow } from './table.tsx';
import type { Entry, KeptSession, Moment, Server } from './types.ts';
import { Text } from './ui.tsx';

/** A part of what is kept: of one server, or of all. */
export interface Node {
  readonly kind: 'all' | 'session' | 'server' | 'sessions' | 'connection' | 'sign-in' | 'refused';
  readonly server: string | undefined;
}

interface Line extends Node {
  readonly name: string;
  readonly count?: number;
  readonly depth: 0 | 1;
}

const ROW = 32;

/** Servers, and below the chosen one the kinds of what is kept for it. */
export function Tree({
  entries,
  sessions,
  servers,
  refusals,
  node,
  onNode,
}: {
  readonly entries: readonly Entry[];
  readonly sessions: readonly KeptSession[];
  readonly servers: readonly Server[];
  readonly refusals: readonly Moment[];
  readonly node: Node;
  readonly onNode: (node: Node) => void;
}) {
  const lines = useMemo(
    () => linesOf({ entries, sessions, servers, refusals }, node.server),
    [entries, sessions, servers, refusals, node.server],
  );
  const { box, first, last } = useWindow(lines.length, ROW);
  return (
    <nav class="tree" ref={box} aria-label="Parts of the store" tabIndex={0}>
      <ul style={{ height: `${lines.length * ROW}px` }}>
        {lines.slice(first, last).map(({ name, count, depth, ...own }, index) => {
          const isCurrent = own.kind === node.kind && own.server === node.server;
          return (
            <li key={`${own.kind} ${own.server}`} style={{ top: `${(first + index) * ROW}px` }}>
              <button
                type="button"
                class={depth === 1 ? 'tree-line deep' : 'tree-line'}
                aria-current={isCurrent ? 'true' : undefined}
                onClick={() => onNode(own)}
              >
                <span class="cut">
                  <Text>{shortName(name)}</Text>
                </span>
                {count !== undefined && <span class="quiet">{count.toLocaleString('en')}</span>}
              </button>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

interface Kept {
  readonly entries: readonly Entry[];
  readonly sessions: readonly KeptSession[];
  readonly servers: readonly Server[];
  readonly refusals: readonly Moment[];
}

function linesOf({ entries, sessions, servers, refusals }: Kept, open: string | undefined): Line[] {
  const counts = new Map<string, number>();
  for (const { server } of servers.map(({ jarName }) => ({ server: jarName }))) counts.set(server, 0);
  for (const { server } of entries) counts.set(server, (counts.get(server) ?? 0) + 1);
  const targets = new Set(servers.filter(({ jarName }) => jarName === open).map(({ id }) => id));
  const own = entries.filter(({ server }) => server === open);
  const parts = (server: string): Line[] => [
    {
      kind: 'session',
      server,
      name: 'Jar · session',
      count: own.filter(({ scope }) => scope === 'session').length,
      depth: 1,
    },
    {
      kind: 'server',
      server,
      name: 'Jar · server',
      count: own.filter(({ scope }) => scope === 'server').length,
      depth: 1,
    },
    {
      kind: 'sessions',
      server,
      name: 'Sessions',
      count: sessions.filter(({ target }) => targets.has(target)).length,
      depth: 1,
    },
    { kind: 'connection', server, name: 'Connection', depth: 1 },
    { kind: 'sign-in', server, name: 'Sign-in', depth: 1 },
  ];
  return [
    { kind: 'all', server: undefined, name: 'All servers', count: entries.length, depth: 0 },
    { kind: 'sessions', server: undefined, name: 'All sessions', count: sessions.length, depth: 0 },
    { kind: 'refused', server: undefined, name: 'Refused and evicted', count: refusals.length, depth: 0 },
    ...[...counts]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .flatMap(([server, count]): Line[] => [
        { kind: 'all', server, name: server, count, depth: 0 },
        ...(server === open ? parts(server) : []),
      ]),
  ];
}

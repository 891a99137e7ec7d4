import { useData } from '../api.ts';
import { bytes, count, shortName } from '../format.ts';
import { type Column, Table } from '../table.tsx';
import type { Meta, Server } from '../types.ts';
import { Badge, Empty, Meter, Problem, Screen, Text, Time } from '../ui.tsx';

/** All servers that the store knows. */
export function Servers({ meta }: { readonly meta: Meta }) {
  const { data, error } = useData<{ servers: readonly Server[] }>('servers', 'servers');
  const servers = data?.servers;
  const columns: readonly Column<Server>[] = [
    {
      name: 'Server',
      width: 'minmax(180px, 2fr)',
      cell: (row) => (
        <span class="two-lines">
          <a href={`#/state?server=${encodeURIComponent(row.jarName)}`}>
            <Text>{shortName(row.name)}</Text>
          </a>
          <span class="quiet">
            <Text>{row.address ?? 'address unknown'}</Text>
          </span>
        </span>
      ),
    },
    {
      name: 'Protocol',
      width: '96px',
      cell: (row) => row.protocol ?? <span class="quiet">{row.kind === 'stdio' ? 'stdio' : '–'}</span>,
    },
    {
      name: 'Principal',
      width: '76px',
      cell: (row) =>
        row.principal === undefined ? <span class="quiet">default</span> : <Text>{row.principal}</Text>,
    },
    {
      name: 'Session',
      width: '104px',
      cell: (row) =>
        row.transportSession ? (
          <code>{row.transportSession}</code>
        ) : row.sessions > 0 ? (
          count(row.sessions, 'session')
        ) : (
          <span class="quiet">none</span>
        ),
    },
    { name: 'Sign-in', width: '104px', cell: (row) => <SignedIn row={row} /> },
    {
      name: 'Jar',
      width: '140px',
      cell: (row) => (
        <span class="jar-cell">
          <Meter
            value={row.jar.fullest}
            most={meta.quota}
            label={`${row.jar.fullest} of ${meta.quota} entries in the fuller scope`}
          />
          <span>
            {row.jar.fullest}/{meta.quota} · {bytes(row.jar.bytes)}
          </span>
        </span>
      ),
    },
    {
      name: 'Questions',
      width: '76px',
      cell: (row) =>
        row.questions > 0 ? (
          <a href="#/questions">
            <Badge tone="warn">{count(row.questions, 'open', 'open')}</Badge>
          </a>
        ) : (
          <span class="quiet">none</span>
        ),
    },
    { name: 'Last seen', width: '100px', cell: (row) => <Time at={row.lastSeen} none="never" /> },
  ];
  return (
    <Screen
      fills
      title="Servers"
      about={
        servers ? `${count(servers.length, 'server')} in this store, most recently used first.` : 'Loading…'
      }
    >
      <Problem error={error} />
      {servers?.length === 0 && (
        <Empty
          title="No server has been used with this store yet"
          command="valise call https://shop.example.com/mcp view_cart"
        >
          A server appears here as soon as a client with Valise has connected to it: with its session, its
          sign-in, what it keeps in the jar and what it asks.
        </Empty>
      )}
      {servers && servers.length > 0 && (
        <Table label="Servers" columns={columns} rows={servers} keyOf={({ id }) => id} minWidth={960} />
      )}
    </Screen>
  );
}

function SignedIn({ row }: { readonly row: Server }) {
  if (!row.signedIn) return <span class="quiet">none</span>;
  const isOver = row.tokenExpiresAt !== undefined && new Date(row.tokenExpiresAt).getTime() < Date.now();
  if (isOver && !row.renewable) return <Badge tone="bad">expired</Badge>;
  return (
    <a href="#/sign-ins">
      {isOver ? 'renewable' : row.tokenExpiresAt ? <Time at={row.tokenExpiresAt} /> : 'signed in'}
    </a>
  );
}

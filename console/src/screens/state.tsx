import { useMemo, useState } from 'preact/hooks';
import { type ApiError, get, post, useData } from '../api.ts';
import { EntryDetails } from '../entry.tsx';
import { bytes, count, download, readJsonFile } from '../format.ts';
import { type Column, Table } from '../table.tsx';
import { type Node, Tree } from '../tree.tsx';
import type { Entry, KeptSession, Meta, Moment, Server, SignIn } from '../types.ts';
import { Act, Badge, Confirm, Empty, JsonTree, Problem, Screen, Text, Time } from '../ui.tsx';

interface State {
  readonly entries: readonly Entry[];
  readonly sessions: readonly KeptSession[];
}

/** What a confirmation is about. */
interface Asked {
  readonly words: string;
  readonly yes: string;
  readonly run: () => Promise<unknown>;
}

const keyOfEntry = ({ server, scope, key, session, account }: Entry): string =>
  JSON.stringify([server, scope, key, session, account]);

/** Everything that is kept, as a tree and a table. */
export function StateScreen({ meta, query }: { readonly meta: Meta; readonly query: URLSearchParams }) {
  const { data, error } = useData<State>('state', 'state');
  const servers = useData<{ servers: readonly Server[] }>('servers', 'servers').data?.servers;
  const signIns = useData<{ signIns: readonly SignIn[] }>('sign-ins', 'sign-ins').data?.signIns;
  const refusals = useData<{ refusals: readonly Moment[] }>('refusals', 'state').data?.refusals;
  const wanted = query.get('server') ?? undefined;
  const [node, setNode] = useState<Node>({ kind: 'all', server: wanted });
  const [filter, setFilter] = useState('');
  const [selected, setSelected] = useState<string>();
  const [asked, setAsked] = useState<Asked>();
  const [problem, setProblem] = useState<ApiError>();
  const [told, setTold] = useState('');
  const inNode = (entry: Entry): boolean =>
    (node.server === undefined || entry.server === node.server) &&
    (node.kind === 'all' || node.kind === entry.scope);
  const entries = useMemo(() => {
    const words = filter.toLowerCase();
    return (data?.entries ?? []).filter(
      (entry) =>
        inNode(entry) &&
        (words === '' || `${entry.server} ${entry.key} ${entry.setBy ?? ''}`.toLowerCase().includes(words)),
    );
  }, [data, filter, node]);
  const selectedEntry = entries.find((entry) => keyOfEntry(entry) === selected);
  const run = async (work: () => Promise<unknown>): Promise<void> => {
    setAsked(undefined);
    setProblem(undefined);
    try {
      await work();
    } catch (thrown) {
      setProblem(thrown as ApiError);
    }
  };
  const target = {
    ...(node.server !== undefined && { server: node.server }),
    ...((node.kind === 'session' || node.kind === 'server') && { scope: node.kind }),
  };
  const sessions = sessionsOf(node, data, servers);
  const here = servers?.filter(({ jarName, kind }) => jarName === node.server && kind === 'http') ?? [];
  const signedIn = signIns?.filter(({ id }) => here.some((server) => server.id === id)) ?? [];
  const clearEntries: Asked = {
    words: `Delete ${count(entries.length, 'entry', 'entries')}${node.server === undefined ? ' of all servers' : ` of ${node.server}`}? The servers forget what they kept there.`,
    yes: 'Delete',
    run: async () => {
      const chosen = filter === '' ? target : { entries: entries.map(nameOfEntry) };
      const { deleted } = await post<{ deleted: number }>('state/delete', chosen);
      setTold(`${count(deleted, 'entry', 'entries')} deleted.`);
    },
  };
  /** What "Clear" does to each kind, if there is anything to clear. */
  const clearing: Partial<Record<Node['kind'], Asked>> = {
    ...(entries.length > 0 && { all: clearEntries, session: clearEntries, server: clearEntries }),
    ...(sessions.length > 0 && {
      sessions: {
        words: `Forget ${count(sessions.length, 'session')}? The servers are not told.`,
        yes: 'Forget',
        run: async () => {
          const ids = sessions.map(({ id }) => id);
          const { forgotten } = await post<{ forgotten: number }>('sessions/forget', { ids });
          setTold(`${count(forgotten, 'session')} forgotten.`);
        },
      },
    }),
    ...(here.length > 0 && {
      connection: {
        words: `Forget the connection to ${node.server}? Its sessions, their state, its questions and the sign-in are deleted here. The server is not told.`,
        yes: 'Forget',
        run: async () => {
          for (const { id } of here) await post('connections/forget', { id });
          setTold('Forgotten.');
        },
      },
    }),
    ...(signedIn.length > 0 && {
      'sign-in': {
        words: `Sign out of ${node.server}? The tokens are revoked, and the sessions and their state here are deleted.`,
        yes: 'Sign out',
        run: async () => {
          for (const { id } of signedIn) await post('sign-ins/sign-out', { id });
          setTold('Signed out.');
        },
      },
    }),
  };
  const clear = clearing[node.kind];
  const save = () =>
    run(async () => {
      const exported = await get(`state/export?${new URLSearchParams(target)}`);
      download('jar.json', JSON.stringify(exported, undefined, 2));
    });
  const load = (input: HTMLInputElement) =>
    run(async () => {
      const exported = await readJsonFile(input);
      if (exported === undefined) return;
      const { imported, refused } = await post<{
        imported: number;
        refused: readonly { key?: string; detail: string }[];
      }>('state/import', { exported });
      const rest = refused.map(({ key, detail }) => `${key ?? 'an entry'}: ${detail}`).join(' ');
      setTold(
        `${count(imported, 'entry', 'entries')} imported${refused.length > 0 ? `, ${refused.length} refused. ${rest}` : '.'}`,
      );
    });
  const isTable = node.kind === 'all' || node.kind === 'session' || node.kind === 'server';
  return (
    <Screen
      fills
      title="State"
      about={
        data
          ? `${count(data.entries.length, 'entry', 'entries')} in the jar, ${count(data.sessions.length, 'session')}.`
          : 'Loading…'
      }
      actions={
        <>
          <button type="button" class="button" onClick={save} disabled={!data?.entries.length}>
            Export
          </button>
          <label
            class={meta.write ? 'button' : 'button off'}
            title={meta.write ? undefined : 'This console only reads. Start it with --write.'}
          >
            Import
            <input
              type="file"
              accept=".json,application/json"
              class="hidden-input"
              disabled={!meta.write}
              onChange={({ currentTarget }) => load(currentTarget)}
            />
          </label>
          <Act
            write={meta.write}
            tone="danger"
            onClick={() => setAsked(clear)}
            disabled={clear === undefined}
          >
            Clear…
          </Act>
        </>
      }
    >
      <Problem error={error ?? problem} />
      <p class="told" role="status">
        <Text>{told}</Text>
      </p>
      {asked && (
        <Confirm
          words={asked.words}
          yes={asked.yes}
          onYes={() => run(asked.run)}
          onNo={() => setAsked(undefined)}
        />
      )}
      {data && data.entries.length === 0 && data.sessions.length === 0 && !servers?.length ? (
        <Empty title="Nothing is kept yet" command="valise call https://shop.example.com/mcp add_item">
          Servers put small pieces of state into the jar, and the client sends them back: a cart, a cursor, a
          choice. They appear here with their size, their expiry and the call that set them.
        </Empty>
      ) : (
        <div class="split">
          <Tree
            entries={data?.entries ?? []}
            sessions={data?.sessions ?? []}
            servers={servers ?? []}
            refusals={refusals ?? []}
            node={node}
            onNode={(next) => {
              setNode(next);
              setSelected(undefined);
            }}
          />
          <div class="split-main">
            {isTable && (
              <>
                <label class="filter">
                  <span class="hidden">Filter entries</span>
                  <input
                    type="search"
                    placeholder="Filter by server, key or call"
                    value={filter}
                    onInput={({ currentTarget }) => setFilter(currentTarget.value)}
                  />
                </label>
                {data && entries.length === 0 ? (
                  <Empty
                    title={filter === '' ? 'Nothing in this part of the jar' : 'No entry fits the filter'}
                  >
                    {filter === ''
                      ? 'A server puts something here when it sets state in this scope.'
                      : 'Try fewer words, or another server.'}
                  </Empty>
                ) : (
                  <Table
                    label="Entries"
                    columns={columnsFor(node.server === undefined)}
                    rows={entries}
                    keyOf={keyOfEntry}
                    selected={selected}
                    onSelect={(entry) => setSelected(keyOfEntry(entry))}
                    minWidth={720}
                  />
                )}
                {selectedEntry && (
                  <EntryDetails
                    key={selected}
                    entry={selectedEntry}
                    write={meta.write}
                    onDelete={(entry) =>
                      setAsked({
                        words: `Delete "${entry.key}" of ${entry.server}${isAlone(entry, data?.entries) ? '' : ', in all its sessions and accounts'}?`,
                        yes: 'Delete',
                        run: () => post('state/delete', nameOfEntry(entry)),
                      })
                    }
                    onClose={() => setSelected(undefined)}
                  />
                )}
              </>
            )}
            {node.kind === 'sessions' && <Sessions sessions={sessions} meta={meta} ask={setAsked} />}
            {node.kind === 'connection' && (
              <Facts value={servers?.filter(({ jarName }) => jarName === node.server)} />
            )}
            {node.kind === 'sign-in' && <Facts value={signedIn} />}
            {node.kind === 'refused' && <Refusals refusals={refusals ?? []} server={node.server} />}
          </div>
        </div>
      )}
    </Screen>
  );
}

function columnsFor(withServer: boolean): readonly Column<Entry>[] {
  const server: Column<Entry> = {
    name: 'Server',
    width: 'minmax(120px, 1fr)',
    cell: (entry) => <Text>{entry.server}</Text>,
  };
  return [
    {
      name: 'Key',
      width: 'minmax(140px, 1.4fr)',
      cell: (entry) => (
        <button type="button" class="link">
          <Text>{entry.key === '' ? '(empty)' : entry.key}</Text>
        </button>
      ),
    },
    ...(withServer ? [server] : []),
    { name: 'Scope', width: '80px', cell: (entry) => entry.scope },
    { name: 'Size', width: '80px', isNumber: true, cell: (entry) => bytes(entry.size) },
    {
      name: 'Set by',
      width: 'minmax(120px, 1fr)',
      cell: (entry) =>
        entry.setBy === undefined ? (
          <span class="quiet">–</span>
        ) : (
          <Text>{entry.setBy.replace(/^tools\/call /, '')}</Text>
        ),
    },
    { name: 'Expires', width: '110px', cell: (entry) => <Time at={entry.expiresAt} /> },
    {
      name: 'Sealed by',
      width: '110px',
      cell: (entry) => (entry.sealed ? <code>{entry.sealed.kid}</code> : <span class="quiet">plain</span>),
    },
  ];
}

/** Entries are deleted by server, scope and key, in every session and account. */
function nameOfEntry({ server, scope, key }: Entry): object {
  return { server, scope, key };
}

/** Whether no other session or account has an entry of this name. */
function isAlone(entry: Entry, entries: readonly Entry[] = []): boolean {
  const isSame = ({ server, scope, key }: Entry): boolean =>
    server === entry.server && scope === entry.scope && key === entry.key;
  return entries.filter(isSame).length <= 1;
}

function sessionsOf(
  { server }: Node,
  data: State | undefined,
  servers: readonly Server[] | undefined,
): readonly KeptSession[] {
  const targets = servers?.filter(({ jarName }) => jarName === server).map(({ id }) => id);
  return (data?.sessions ?? []).filter(({ target }) => server === undefined || targets?.includes(target));
}

function Sessions({
  sessions,
  meta,
  ask,
}: {
  readonly sessions: readonly KeptSession[];
  readonly meta: Meta;
  readonly ask: (asked: Asked) => void;
}) {
  const columns: readonly Column<KeptSession>[] = [
    {
      name: 'Name',
      width: 'minmax(120px, 1fr)',
      cell: ({ label }) => (label === undefined ? <span class="quiet">no name</span> : <Text>{label}</Text>),
    },
    { name: 'Id', width: '140px', cell: ({ id }) => <code>{id}</code> },
    { name: 'Server', width: 'minmax(160px, 1.5fr)', cell: ({ target }) => <Text>{target}</Text> },
    { name: 'Used', width: '120px', cell: ({ usedAt }) => <Time at={usedAt} /> },
    {
      name: 'Expires',
      width: '120px',
      cell: ({ expiresAt, isStale }) =>
        isStale ? <Badge tone="warn">over</Badge> : <Time at={expiresAt} none="not said" />,
    },
    {
      name: 'Action',
      width: '90px',
      cell: ({ id, label }) => (
        <Act
          small
          write={meta.write}
          label={`Forget ${label ?? id}`}
          onClick={() =>
            ask({
              words: `Forget the session ${label ?? id}? The server is not told.`,
              yes: 'Forget',
              run: () => post('sessions/forget', { ids: [id] }),
            })
          }
        >
          Forget
        </Act>
      ),
    },
  ];
  if (sessions.length === 0)
    return (
      <Empty title="No sessions are kept here" command="valise call URL notebook_append --session diary">
        A session with a name is kept, so that a later process finds it again.
      </Empty>
    );
  return (
    <Table
      label="Sessions"
      columns={columns}
      rows={sessions}
      keyOf={({ target, id }) => `${target} ${id}`}
      minWidth={760}
    />
  );
}

function Facts({ value }: { readonly value: readonly object[] | undefined }) {
  if (!value?.length)
    return (
      <Empty title="Nothing is kept of this">It appears once a client has connected or signed in.</Empty>
    );
  return (
    <div class="card scrolls" tabIndex={0} role="region" aria-label="Details">
      {value.map((each, at) => (
        <JsonTree key={at} value={each} />
      ))}
    </div>
  );
}

function Refusals({
  refusals,
  server,
}: {
  readonly refusals: readonly Moment[];
  readonly server: string | undefined;
}) {
  const own = refusals.filter(({ lane }) => server === undefined || lane === server);
  const columns: readonly Column<Moment>[] = [
    { name: 'When', width: '100px', cell: ({ at }) => <Time at={at} /> },
    { name: 'Kind', width: '90px', cell: ({ name }) => <Badge tone="warn">{name}</Badge> },
    { name: 'Server', width: 'minmax(120px, 1fr)', cell: ({ lane }) => <Text>{lane ?? ''}</Text> },
    {
      name: 'Why',
      width: 'minmax(300px, 4fr)',
      cell: ({ what = '' }) => (
        <span class="wraps">
          <Text>{what.replace(/^(refused|evicted) /, '')}</Text>
        </span>
      ),
    },
  ];
  if (own.length === 0)
    return (
      <Empty title="Nothing was refused or evicted">
        When a server sends state that is too large, or the jar is full, the entry and the reason appear here.
        Other programs tell it only if they record their events.
      </Empty>
    );
  return (
    <Table
      label="Refused and evicted"
      columns={columns}
      rows={own}
      keyOf={({ id }) => String(id)}
      minWidth={640}
    />
  );
}

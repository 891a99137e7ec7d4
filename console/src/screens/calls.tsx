import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { type ApiError, post, useData } from '../api.ts';
import { Fields, initialOf, type Typed } from '../form.tsx';
import { Result } from '../result.tsx';
import type { Made, Meta, Outcome, Server, Tool } from '../types.ts';
import { Act, Badge, Empty, JsonTree, Problem, Screen, Text, Time } from '../ui.tsx';

interface Tools {
  readonly tools: readonly Tool[];
  readonly sessions: readonly string[];
}

/** Calls a tool with a form made from its schema. */
export function Calls({ meta }: { readonly meta: Meta }) {
  const servers = useData<{ servers: readonly Server[] }>('servers', 'servers');
  const history = useData<{ history: readonly Made[] }>('calls', 'calls');
  const [server, setServer] = useState('');
  const [tools, setTools] = useState<Tools>();
  const [tool, setTool] = useState('');
  const [session, setSession] = useState('');
  const [typed, setTyped] = useState<Typed>({});
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  const [outcome, setOutcome] = useState<Outcome>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState<'connecting' | 'calling'>();
  const known = servers.data?.servers.filter(({ kind }) => kind !== undefined) ?? [];
  const chosen = tools?.tools.find(({ name }) => name === tool);
  const current = history.data?.history.find(({ took }) => took === undefined);

  useEffect(() => {
    setTools(undefined);
    setTool('');
    setSession('');
    setOutcome(undefined);
    setError(undefined);
    if (server === '') return undefined;
    let isCurrent = true;
    setBusy('connecting');
    post<Tools>('calls/tools', { server })
      .then(
        (found) => {
          if (!isCurrent) return;
          setTools(found);
          setTool(found.tools[0]?.name ?? '');
        },
        (thrown) => isCurrent && setError(thrown),
      )
      .finally(() => isCurrent && setBusy(undefined));
    return () => {
      isCurrent = false;
    };
  }, [server]);

  // Before anybody can type into the new form.
  useLayoutEffect(() => {
    setTyped(initialOf(chosen?.fields ?? []));
    setProblems({});
    setOutcome(undefined);
  }, [tool, tools]);

  const call = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy('calling');
    setError(undefined);
    setProblems({});
    setOutcome(undefined);
    try {
      const made = await post<Outcome>('calls/run', {
        server,
        tool,
        values: typed,
        ...(session && { session }),
      });
      if (made.problems) setProblems(made.problems as Record<string, string>);
      else setOutcome(made);
    } catch (thrown) {
      setError(thrown as ApiError);
    }
    setBusy(undefined);
  };

  return (
    <Screen title="Calls" about="Call a tool with everything that this store keeps for its server.">
      <Problem error={servers.error ?? error} />
      {!meta.write && (
        <p class="note">
          This console only reads, so it calls nothing. Start it with <code>--write</code>.
        </p>
      )}
      {servers.data && known.length === 0 ? (
        <Empty title="No server to call" command="valise console --write https://shop.example.com/mcp">
          The page calls servers that the store knows, and those that the command line names. It cannot be
          talked into starting anything else.
        </Empty>
      ) : (
        <div class="columns">
          <section class="card" aria-label="Call">
            <form onSubmit={call} noValidate>
              <div class="field">
                <label for="call-server">Server</label>
                <select
                  id="call-server"
                  value={server}
                  disabled={!meta.write}
                  onChange={({ currentTarget }) => setServer(currentTarget.value)}
                >
                  <option value="">Choose…</option>
                  {known.map((each) => (
                    <option key={each.id} value={each.id}>
                      {each.name} – {each.address}
                    </option>
                  ))}
                </select>
              </div>
              {busy === 'connecting' && (
                <p class="quiet" role="status">
                  Connecting…
                </p>
              )}
              {tools && (
                <>
                  <div class="field">
                    <label for="call-tool">Tool</label>
                    <select
                      id="call-tool"
                      value={tool}
                      onChange={({ currentTarget }) => setTool(currentTarget.value)}
                    >
                      {tools.tools.map((each) => (
                        <option key={each.name} value={each.name}>
                          {each.title ?? each.name}
                        </option>
                      ))}
                    </select>
                    {chosen?.description && (
                      <p class="field-help">
                        <Text>{chosen.description}</Text>
                      </p>
                    )}
                  </div>
                  <div class="field">
                    <label for="call-session">
                      Session <span class="quiet">optional; a new name makes a new one</span>
                    </label>
                    <input
                      id="call-session"
                      list="call-sessions"
                      autocomplete="off"
                      value={session}
                      onInput={({ currentTarget }) => setSession(currentTarget.value)}
                    />
                    <datalist id="call-sessions">
                      {tools.sessions.map((each) => (
                        <option key={each} value={each} />
                      ))}
                    </datalist>
                  </div>
                  <Fields
                    fields={chosen?.fields ?? []}
                    typed={typed}
                    problems={problems}
                    onChange={setTyped}
                  />
                  <div class="actions">
                    <Act
                      write={meta.write}
                      type="submit"
                      tone="primary"
                      disabled={busy !== undefined || tool === ''}
                    >
                      {busy === 'calling' ? 'Calling…' : 'Call'}
                    </Act>
                  </div>
                </>
              )}
            </form>
          </section>
          <section class="card" aria-label="Result">
            <h2>Result</h2>
            {current?.progress && (
              <div role="status">
                <progress
                  aria-label="Progress"
                  value={current.progress.total ? current.progress.done : undefined}
                  max={current.progress.total ?? 1}
                />{' '}
                <Text>{current.progress.message ?? `${current.progress.done}`}</Text>
              </div>
            )}
            {outcome ? (
              <Result outcome={outcome} />
            ) : (
              <p class="quiet">What the tool returns appears here.</p>
            )}
          </section>
        </div>
      )}
      <History made={history.data?.history ?? []} />
    </Screen>
  );
}

function History({ made }: { readonly made: readonly Made[] }) {
  if (made.length === 0) return null;
  return (
    <section aria-label="History">
      <h2>History</h2>
      <ul class="history">
        {made.map((each) => (
          <li key={each.id} class="card">
            <details>
              <summary>
                <strong>
                  <Text>{each.tool}</Text>
                </strong>{' '}
                <span class="quiet">
                  <Text>{each.server}</Text> · <Time at={each.at} />
                  {each.took === undefined ? '' : ` · ${each.took} ms`}
                </span>{' '}
                <HistoryBadge outcome={each.outcome} />
              </summary>
              <JsonTree name="arguments" value={each.arguments} />
              {each.outcome && <Result outcome={each.outcome} />}
            </details>
          </li>
        ))}
      </ul>
    </section>
  );
}

function HistoryBadge({ outcome }: { readonly outcome: Outcome | undefined }) {
  if (!outcome) return <Badge tone="info">under way</Badge>;
  if (outcome.error !== undefined || outcome.result?.isError) return <Badge tone="bad">failed</Badge>;
  return outcome.question ? <Badge tone="warn">asked</Badge> : <Badge tone="good">done</Badge>;
}

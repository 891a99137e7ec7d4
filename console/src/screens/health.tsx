import { useState } from 'preact/hooks';
import { type ApiError, post, useData } from '../api.ts';
import { count } from '../format.ts';
import type { Finding, KeyUse, Meta, Server } from '../types.ts';
import { Act, Badge, Empty, Problem, Screen, Text, type Tone } from '../ui.tsx';

interface HealthData {
  readonly findings: readonly Finding[];
  readonly keys: { readonly servers: readonly KeyUse[]; readonly store: readonly KeyUse[] };
}

const STATUS: Readonly<Record<Finding['status'], readonly [word: string, tone: Tone]>> = {
  ok: ['ok', 'good'],
  warn: ['warning', 'warn'],
  fail: ['problem', 'bad'],
};

const PHASES: Readonly<Record<KeyUse['phase'], readonly [word: string, tone: Tone]>> = {
  seals: ['seals and opens', 'good'],
  opens: ['opens', 'info'],
  missing: ['not in the keyring', 'bad'],
  unknown: ['known to the server', 'plain'],
};

/** What the doctor finds, and the keys. */
export function Health({ meta }: { readonly meta: Meta }) {
  const { data, error, reload } = useData<HealthData>('health', 'health');
  const servers = useData<{ servers: readonly Server[] }>('servers', 'servers').data?.servers;
  const [server, setServer] = useState('');
  const [found, setFound] = useState<readonly Finding[]>();
  const [problem, setProblem] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const examine = async (): Promise<void> => {
    setBusy(true);
    setProblem(undefined);
    setFound(undefined);
    try {
      setFound((await post<{ findings: readonly Finding[] }>('health/server', { server })).findings);
    } catch (thrown) {
      setProblem(thrown as ApiError);
    }
    setBusy(false);
  };
  const bad = data?.findings.filter(({ status }) => status === 'fail').length ?? 0;
  const some = data?.findings.filter(({ status }) => status === 'warn').length ?? 0;
  return (
    <Screen
      title="Health"
      about={data ? `${count(bad, 'problem')}, ${count(some, 'warning')}.` : 'Examining…'}
      actions={
        <button type="button" class="button" onClick={reload}>
          Examine again
        </button>
      }
    >
      <Problem error={error ?? problem} />
      {data && <Findings findings={data.findings} label="This machine" />}
      <section class="card" aria-label="A server">
        <h2>A server</h2>
        <p class="quiet">What the doctor finds when it connects: versions, families, clocks, sign-in.</p>
        <div class="inline-form">
          <label>
            <span>Server</span>
            <select
              value={server}
              disabled={!meta.write}
              onChange={({ currentTarget }) => setServer(currentTarget.value)}
            >
              <option value="">Choose…</option>
              {servers
                ?.filter(({ kind }) => kind !== undefined)
                .map((each) => (
                  <option key={each.id} value={each.id}>
                    {each.name} – {each.address}
                  </option>
                ))}
            </select>
          </label>
          <Act write={meta.write} disabled={server === '' || busy} onClick={() => void examine()}>
            {busy ? 'Examining…' : 'Examine'}
          </Act>
        </div>
        {found && <Findings findings={found} label="The server" bare />}
      </section>
      {data && (
        <>
          <Keys
            title="Keys of this store"
            about="They seal what the client keeps. A key may be dropped once it seals nothing."
            keys={data.keys.store}
          />
          <Keys
            title="Keys of servers"
            about="Servers sealed entries of the jar with these. Their phase is known if VALISE_KEYS is set here."
            keys={data.keys.servers}
          />
        </>
      )}
    </Screen>
  );
}

function Findings({
  findings,
  label,
  bare,
}: {
  readonly findings: readonly Finding[];
  readonly label: string;
  readonly bare?: boolean;
}) {
  return (
    <ul class={bare ? 'findings' : 'card findings'} aria-label={label}>
      {findings.map(({ check, status, what, fix }, at) => (
        <li key={`${check} ${at}`}>
          <Badge tone={STATUS[status][1]}>{STATUS[status][0]}</Badge>
          <div>
            <strong>{check}</strong>
            <p>
              <Text>{what}</Text>
            </p>
            {fix && (
              <p class="fix">
                → <Text>{fix}</Text>
              </p>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}

/** Keys with what they still seal. */
export function Keys({
  title,
  about,
  keys,
  unit = 'entry',
}: {
  readonly title: string;
  readonly about: string;
  readonly keys: readonly KeyUse[];
  /** What is counted. */
  readonly unit?: 'entry' | 'seal';
}) {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="quiet">{about}</p>
      {keys.length === 0 ? (
        <Empty title="Nothing is sealed here" command="valise keys generate">
          Without keys of its own the store is readable by whoever can read its file; sign-ins are sealed in
          any case.
        </Empty>
      ) : (
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col">Phase</th>
              <th scope="col" class="number">
                {unit === 'entry' ? 'Still seals' : 'Seen'}
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map(({ kid, phase, entries }) => (
              <tr key={kid}>
                <td>
                  <code>{kid}</code>
                </td>
                <td>
                  <Badge tone={PHASES[phase][1]}>{PHASES[phase][0]}</Badge>
                </td>
                <td class="number">
                  {unit === 'entry' ? count(entries, 'entry', 'entries') : count(entries, 'seal')}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

import { useState } from 'preact/hooks';
import { type ApiError, post, useData } from '../api.ts';
import { count } from '../format.ts';
import { type Column, Table } from '../table.tsx';
import type { KeyUse, Meta } from '../types.ts';
import { Act, Badge, Confirm, Empty, Meter, Problem, Screen, Text, Time } from '../ui.tsx';
import { Keys } from './health.tsx';

interface Row {
  readonly key: string;
  readonly id: string;
  readonly principal?: string;
  readonly label?: string;
  readonly created: number;
  readonly expires: number;
  readonly ended: string | null;
  readonly isStored: boolean;
  readonly isStandIn: boolean;
}

interface Limits {
  readonly maxPerPrincipal: number;
  readonly maxAnonymous: number;
  /** Whether these are the defaults, because no process has reported its own. */
  readonly isDefault?: boolean;
}

interface FlowRow {
  readonly id: string;
  readonly kid?: string;
  readonly tool?: string;
  readonly round?: number;
  readonly questions?: readonly string[];
  readonly since?: number;
  readonly until?: number;
  readonly effects?: readonly string[];
}

/** How often something happened, with what it may mean. */
interface Tally {
  readonly reason: string;
  readonly family: string;
  readonly total: number;
  /** Counts by minute, oldest first; the last one is the current minute. */
  readonly minutes: readonly number[];
  readonly means: string;
}

function Unseen({ words }: { readonly words: string | undefined }) {
  return words === undefined ? null : (
    <p class="note">
      <Badge tone="info">Not all is seen</Badge> {words}
    </p>
  );
}

/** The sessions of a server, by principal. */
export function OperatorSessions({ meta }: { readonly meta: Meta }) {
  const { data, error, reload } = useData<{
    sessions: readonly Row[];
    limits?: Limits;
    unseen?: string;
    canRevoke?: boolean;
  }>('operator/sessions', 'operator');
  const [asked, setAsked] = useState<Row>();
  const [problem, setProblem] = useState<ApiError>();
  const sessions = data?.sessions ?? [];
  const living = sessions.filter(({ ended }) => ended === null);
  const ofPrincipal = new Map<string | undefined, number>();
  for (const { principal } of living) ofPrincipal.set(principal, (ofPrincipal.get(principal) ?? 0) + 1);
  const anonymous = ofPrincipal.get(undefined) ?? 0;
  const limits = data?.limits;
  const revoke = async ({ key }: Row): Promise<void> => {
    setAsked(undefined);
    setProblem(undefined);
    await post('operator/revoke', { id: key }).catch(setProblem);
    reload();
  };
  const columns: readonly Column<Row>[] = [
    {
      name: 'Principal',
      width: 'minmax(110px, 1fr)',
      cell: ({ principal }) =>
        principal === undefined ? <span class="quiet">anonymous</span> : <code>{principal}</code>,
    },
    {
      name: 'Against its limit',
      width: '140px',
      cell: ({ principal }) => {
        const used = ofPrincipal.get(principal) ?? 0;
        const most = principal === undefined ? limits?.maxAnonymous : limits?.maxPerPrincipal;
        if (most === undefined) return used;
        return (
          <span class="jar-cell">
            <Meter value={used} most={most} label={`${used} of ${most} sessions of this principal`} />
            <span>
              {used} of {most}
            </span>
          </span>
        );
      },
    },
    { name: 'Session', width: '100px', cell: ({ id }) => <code>{id}</code> },
    {
      name: 'Name',
      width: 'minmax(100px, 1fr)',
      cell: ({ label, isStandIn }) =>
        label !== undefined ? (
          <Text>{label}</Text>
        ) : (
          <span class="quiet">{isStandIn ? 'of the transport' : 'none'}</span>
        ),
    },
    {
      name: 'State',
      width: '100px',
      cell: ({ isStored }) => (isStored ? 'in the store' : 'with the client'),
    },
    { name: 'Began', width: '110px', cell: ({ created }) => <Time at={created} /> },
    {
      name: 'Expires',
      width: '100px',
      cell: ({ expires, ended }) => (ended === null ? <Time at={expires} /> : <Badge>{ended}</Badge>),
    },
    {
      name: 'Action',
      width: '90px',
      cell: (row) => (
        <Act
          small
          write={meta.write && data?.canRevoke === true}
          disabled={row.ended !== null}
          label={`Revoke ${row.label ?? row.id}`}
          onClick={() => setAsked(row)}
        >
          Revoke
        </Act>
      ),
    },
  ];
  return (
    <Screen
      fills
      title="Sessions"
      about={
        data
          ? `${count(living.length, 'session')} of ${count(ofPrincipal.size - (anonymous > 0 ? 1 : 0), 'principal')}, ${anonymous} anonymous, ${sessions.length - living.length} ended.`
          : 'Loading…'
      }
    >
      <Problem error={error ?? problem} />
      {asked && (
        <Confirm
          words={`Revoke the session ${asked.label ?? asked.id}? Its client cannot use it any longer, on any instance.`}
          yes="Revoke"
          onYes={() => void revoke(asked)}
          onNo={() => setAsked(undefined)}
        />
      )}
      <Unseen words={data?.unseen} />
      {limits?.isDefault && sessions.length > 0 && (
        <p class="note">
          <Badge tone="info">Default limits</Badge> The server may have others. It reports them with the
          option <code>recordEvents: true</code>.
        </p>
      )}
      {data && sessions.length === 0 ? (
        <Empty title="No sessions in this store">
          A server with the option sessions and this store keeps a record of each session here.
        </Empty>
      ) : (
        <Table label="Sessions" columns={columns} rows={sessions} keyOf={({ key }) => key} minWidth={940} />
      )}
    </Screen>
  );
}

/** Flows that wait for an answer. */
export function OperatorFlows() {
  const { data, error } = useData<{
    flows: readonly FlowRow[];
    counts?: Readonly<Record<string, number>>;
    unseen?: string;
  }>('operator/flows', 'operator');
  const flows = data?.flows ?? [];
  const columns: readonly Column<FlowRow>[] = [
    {
      name: 'Tool',
      width: 'minmax(140px, 1fr)',
      cell: ({ tool, round }) =>
        tool === undefined ? (
          <span class="quiet">{round === undefined ? 'sealed' : 'not in the record'}</span>
        ) : (
          <Text>{tool}</Text>
        ),
    },
    {
      name: 'Asks',
      width: 'minmax(140px, 1fr)',
      cell: ({ questions }) => <Text>{questions?.join(', ') ?? '–'}</Text>,
    },
    { name: 'Round', width: '70px', isNumber: true, cell: ({ round }) => round ?? '–' },
    { name: 'Since', width: '130px', cell: ({ since }) => <Time at={since} /> },
    { name: 'Time left', width: '130px', cell: ({ until }) => <Time at={until} /> },
    {
      name: 'Effects done',
      width: 'minmax(110px, 1fr)',
      cell: ({ effects }) =>
        effects?.length ? <Text>{effects.join(', ')}</Text> : <span class="quiet">none</span>,
    },
    { name: 'Sealed by', width: '110px', cell: ({ kid }) => <code>{kid ?? 'plain'}</code> },
  ];
  return (
    <Screen
      fills
      title="Flows"
      about={
        data
          ? `${count(flows.length, 'flow')} in the store. Carried ones are with their clients.`
          : 'Loading…'
      }
    >
      <Problem error={error} />
      <Unseen words={data?.unseen} />
      {data?.counts && <FlowCounts counts={data.counts} />}
      {data && flows.length === 0 ? (
        <Empty title="No flow is kept in this store">
          A tool that asks in the middle keeps its context here if its flows are stored. By default they
          travel with the client, sealed.
        </Empty>
      ) : (
        <Table label="Flows" columns={columns} rows={flows} keyOf={({ id }) => id} minWidth={860} />
      )}
    </Screen>
  );
}

/** What each count of flows is called. */
const COUNTS: readonly (readonly [name: string, words: string])[] = [
  ['asked', 'Questions asked'],
  ['answered', 'Answers accepted'],
  ['refused', 'Answers refused'],
  ['notEchoed', 'Answers without their context'],
  ['recalled', 'Of those, served from the store'],
  ['same', 'Carried and stored context agree'],
  ['different', 'They differ'],
  ['missing', 'No longer in the store'],
];

/** Counts of all flows, also of those that only their clients carry. */
function FlowCounts({ counts }: { readonly counts: Readonly<Record<string, number>> }) {
  const open = Math.max(0, (counts['asked'] ?? 0) - (counts['answered'] ?? 0));
  return (
    <dl class="card facts" aria-label="Counts of flows">
      <div>
        <dt>Not answered so far</dt>
        <dd>{open}</dd>
      </div>
      {COUNTS.map(([name, words]) => (
        <div key={name}>
          <dt>{words}</dt>
          <dd>{counts[name] ?? 0}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What the server refused, and what that may mean. */
export function OperatorRejections() {
  const { data, error } = useData<{ rejections: readonly Tally[]; unseen?: string }>(
    'operator/rejections',
    'operator',
  );
  return (
    <Screen title="Rejections" about="What clients sent and the server refused, over the last hour.">
      <Problem error={error} />
      <Unseen words={data?.unseen} />
      {data && data.unseen === undefined && data.rejections.length === 0 && (
        <Empty title="Nothing was refused">
          A seal that does not open, a value that does not fit, a limit that is reached: each appears here
          with its reason.
        </Empty>
      )}
      <Tallies tallies={data?.rejections ?? []} />
    </Screen>
  );
}

/** A sentence in which names of options are between backticks. */
function Marked({ words }: { readonly words: string }) {
  return (
    <>
      {words
        .split('`')
        .map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : <Text key={at}>{part}</Text>))}
    </>
  );
}

/** Counts over the last hour, as bars by minute. */
function Tallies({ tallies }: { readonly tallies: readonly Tally[] }) {
  return (
    <>
      {tallies.map(({ reason, family, total, minutes, means }) => {
        const most = Math.max(1, ...minutes);
        return (
          <section class="card" key={`${family} ${reason}`} aria-label={`${family}: ${reason}`}>
            <div class="details-head">
              <h2>
                <Text>{reason}</Text>
              </h2>
              <Badge tone="warn">{count(total, 'time')}</Badge>
            </div>
            <p>
              <Marked words={means} /> <span class="quiet">({family})</span>
            </p>
            <div class="bars" role="img" aria-label={`By minute, oldest first: ${minutes.join(', ')}`}>
              {minutes.map((number, at) => (
                <span key={at} style={{ height: `${(number / most) * 100}%` }} />
              ))}
            </div>
          </section>
        );
      })}
    </>
  );
}

interface Process {
  readonly id: string;
  readonly process: string;
  readonly since: number;
  readonly listeners?: number;
  readonly maxListeners?: number;
  readonly store?: { readonly operations: number; readonly mean: number; readonly slowest: number };
}

interface StoreData {
  readonly keys?: readonly KeyUse[];
  readonly latency?: { readonly median: number; readonly slowest: number };
  readonly traffic?: readonly KeyUse[];
  readonly storeErrors?: readonly Tally[];
  readonly processes?: readonly Process[];
  readonly unseen?: string;
}

/** The store of a server: its speed, its errors, its listeners, and the keys that are still needed. */
export function OperatorStore() {
  const { data, error, reload } = useData<StoreData>('operator/store', 'operator');
  return (
    <Screen
      title="Store and keys"
      about="Drop an old key once it seals nothing in the store and clients send none of its seals."
      actions={
        <button type="button" class="button" onClick={reload}>
          Measure again
        </button>
      }
    >
      <Problem error={error} />
      <Unseen words={data?.unseen} />
      {data?.latency && (
        <dl class="card facts">
          <div>
            <dt>A read takes, in the median</dt>
            <dd>{data.latency.median.toFixed(2)} ms</dd>
          </div>
          <div>
            <dt>The slowest of 20</dt>
            <dd>{data.latency.slowest.toFixed(2)} ms</dd>
          </div>
        </dl>
      )}
      {data?.processes && <Processes processes={data.processes} />}
      {data?.storeErrors && data.storeErrors.length === 0 && (
        <section class="card">
          <p>
            <Badge tone="good">no errors</Badge> The store has answered every operation.
          </p>
        </section>
      )}
      <Tallies tallies={data?.storeErrors ?? []} />
      {data?.keys && (
        <Keys
          title="Keys in the store"
          about="How many records of this store each key has sealed. Their phase is known if VALISE_KEYS is set."
          keys={data.keys}
        />
      )}
      {data?.traffic && (
        <Keys
          title="Keys in traffic"
          about="How many seals of each key clients have sent back since the server started to count."
          keys={data.traffic}
          unit="seal"
        />
      )}
    </Screen>
  );
}

/** The processes of the server that run now, with their listeners and how fast their store is. */
function Processes({ processes }: { readonly processes: readonly Process[] }) {
  return (
    <section class="card" aria-label="Processes">
      <h2>{count(processes.length, 'process', 'processes')}</h2>
      {processes.length === 0 ? (
        <p class="quiet">No process of this server has reported within the last minute.</p>
      ) : (
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">Process</th>
              <th scope="col">Counts since</th>
              <th scope="col" class="number">
                Listeners
              </th>
              <th scope="col" class="number">
                Store operations
              </th>
              <th scope="col" class="number">
                Mean
              </th>
              <th scope="col" class="number">
                Slowest
              </th>
            </tr>
          </thead>
          <tbody>
            {processes.map(({ id, process, since, listeners, maxListeners, store }) => (
              <tr key={id}>
                <td>
                  <code>{process}</code>
                </td>
                <td>
                  <Time at={since} />
                </td>
                <td class="number">{listeners === undefined ? '–' : `${listeners} of ${maxListeners}`}</td>
                <td class="number">{store?.operations ?? '–'}</td>
                <td class="number">{store ? `${store.mean.toFixed(2)} ms` : '–'}</td>
                <td class="number">{store ? `${store.slowest.toFixed(1)} ms` : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

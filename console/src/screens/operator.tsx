import { useState } from 'preact/hooks';
import { type ApiError, post, useData } from '../api.ts';
import { count } from '../format.ts';
import { type Column, Table } from '../table.tsx';
import type { KeyUse, Meta } from '../types.ts';
import { Act, Badge, Confirm, Empty, Problem, Screen, Text, Time } from '../ui.tsx';
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

interface Rejection {
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
    unseen?: string;
    canRevoke?: boolean;
  }>('operator/sessions', 'operator');
  const [asked, setAsked] = useState<Row>();
  const [problem, setProblem] = useState<ApiError>();
  const sessions = data?.sessions ?? [];
  const living = sessions.filter(({ ended }) => ended === null);
  const ofPrincipal = new Map<string, number>();
  for (const { principal = 'anonymous' } of living)
    ofPrincipal.set(principal, (ofPrincipal.get(principal) ?? 0) + 1);
  const revoke = async ({ key }: Row): Promise<void> => {
    setAsked(undefined);
    setProblem(undefined);
    await post('operator/revoke', { id: key }).catch(setProblem);
    reload();
  };
  const columns: readonly Column<Row>[] = [
    {
      name: 'Principal',
      width: 'minmax(140px, 1fr)',
      cell: ({ principal }) =>
        principal === undefined ? <span class="quiet">anonymous</span> : <code>{principal}</code>,
    },
    {
      name: 'Of the principal',
      width: '120px',
      isNumber: true,
      cell: ({ principal = 'anonymous' }) => ofPrincipal.get(principal) ?? 0,
    },
    { name: 'Session', width: '120px', cell: ({ id }) => <code>{id}</code> },
    {
      name: 'Name',
      width: 'minmax(100px, 1fr)',
      cell: ({ label }) => (label === undefined ? <span class="quiet">none</span> : <Text>{label}</Text>),
    },
    {
      name: 'State',
      width: '100px',
      cell: ({ isStored }) => (isStored ? 'in the store' : 'with the client'),
    },
    { name: 'Began', width: '120px', cell: ({ created }) => <Time at={created} /> },
    {
      name: 'Expires',
      width: '120px',
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
          ? `${count(living.length, 'session')} of ${count(ofPrincipal.size, 'principal')}, ${sessions.length - living.length} ended.`
          : 'Loading…'
      }
    >
      <Problem error={error ?? problem} />
      {asked && (
        <Confirm
          words={`Revoke the session ${asked.label ?? asked.id}? Its client cannot go on with it, on any instance.`}
          yes="Revoke"
          onYes={() => void revoke(asked)}
          onNo={() => setAsked(undefined)}
        />
      )}
      <Unseen words={data?.unseen} />
      {data && sessions.length === 0 ? (
        <Empty title="No sessions in this store">
          A server with the option sessions and this store keeps a record of each session here.
        </Empty>
      ) : (
        <Table label="Sessions" columns={columns} rows={sessions} keyOf={({ key }) => key} minWidth={960} />
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
      {data?.counts && (
        <dl class="card facts">
          {Object.entries(data.counts).map(([name, number]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{number}</dd>
            </div>
          ))}
        </dl>
      )}
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

/** What the server refused, and what that may mean. */
export function OperatorRejections() {
  const { data, error } = useData<{ rejections: readonly Rejection[]; unseen?: string }>(
    'operator/rejections',
    'operator',
  );
  const rejections = data?.rejections ?? [];
  return (
    <Screen title="Rejections" about="What clients sent back and the server refused, over the last hour.">
      <Problem error={error} />
      <Unseen words={data?.unseen} />
      {data && rejections.length === 0 && (
        <Empty title="Nothing was refused">
          A seal that does not open, a value that does not fit, a limit that is reached: each appears here
          with its reason.
        </Empty>
      )}
      {rejections.map(({ reason, family, total, minutes, means }) => {
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
              <Text>{means}</Text> <span class="quiet">({family})</span>
            </p>
            <div class="bars" role="img" aria-label={`By minute, oldest first: ${minutes.join(', ')}`}>
              {minutes.map((number, at) => (
                <span key={at} style={{ height: `${(number / most) * 100}%` }} />
              ))}
            </div>
          </section>
        );
      })}
    </Screen>
  );
}

/** The keys and the speed of a server's store. */
export function OperatorStore() {
  const { data, error, reload } = useData<{
    keys: readonly KeyUse[];
    latency?: { readonly median: number; readonly slowest: number };
    isTraffic?: boolean;
    unseen?: string;
  }>('operator/store', 'operator');
  return (
    <Screen
      title="Store and keys"
      about="A key may be dropped once it seals nothing."
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
      {data && (
        <Keys
          title="Keys"
          about={
            data.isTraffic
              ? 'How many seals that clients sent back each key has made, since the console was mounted.'
              : 'How many records of this store each key has sealed. Their phase is known if VALISE_KEYS is set.'
          }
          keys={data.keys}
        />
      )}
    </Screen>
  );
}

import { useLayoutEffect, useRef } from 'preact/hooks';
import { clockTime } from './format.ts';
import { useWindow } from './table.tsx';
import type { Carried, Moment } from './types.ts';
import { JsonTree, Text } from './ui.tsx';

const ROW = 44;

/** The participants of these moments, clients first. Events have lanes of their own only if there are no messages. */
export function lanesOf(moments: readonly Moment[]): string[] {
  const named = (kind: Moment['kind']): string[] =>
    moments
      .filter((moment) => moment.kind === kind)
      .flatMap(({ from, to, lane }) => [from, to, lane].filter((name) => name !== undefined));
  const messages = new Set(named('message'));
  const lanes = [...(messages.size > 0 ? messages : new Set(named('event')))];
  const isClient = (name: string): boolean => /^(console|client)/.test(name);
  return [...lanes.filter(isClient), ...lanes.filter((name) => !isClient(name))];
}

/** Messages between lanes, drawn as arrows, with events in between. */
export function Lanes({
  moments,
  lanes,
  selected,
  onSelect,
}: {
  readonly moments: readonly Moment[];
  readonly lanes: readonly string[];
  readonly selected: number | undefined;
  readonly onSelect: (moment: Moment) => void;
}) {
  const { box, first, last } = useWindow(moments.length, ROW);
  const follows = useRef(true);
  // New moments stay in view as long as the end is.
  useLayoutEffect(() => {
    const element = box.current;
    if (element && follows.current) element.scrollTop = element.scrollHeight;
  }, [moments.length]);
  const width = Math.max(560, 110 + lanes.length * 170);
  return (
    <div
      class="lanes-box"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label="Timeline"
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        follows.current = scrollTop + clientHeight >= scrollHeight - ROW;
      }}
    >
      <div class="lanes" style={{ minWidth: `${width}px` }}>
        <div class="lanes-head">
          <span class="lane-time">Time</span>
          <div class="lane-names">
            {lanes.map((lane) => (
              <span key={lane} style={{ width: `${100 / lanes.length}%` }} title={lane}>
                <Text>{lane.replace(/^https?:\/\//, '')}</Text>
              </span>
            ))}
          </div>
        </div>
        <ol class="lanes-body" style={{ height: `${moments.length * ROW}px` }}>
          {moments.slice(first, last).map((moment, index) => (
            <li key={moment.id} style={{ top: `${(first + index) * ROW}px` }}>
              <button
                type="button"
                class={moment.id === selected ? 'lane-row selected' : 'lane-row'}
                aria-pressed={moment.id === selected}
                onClick={() => onSelect(moment)}
              >
                <span class="lane-time">{clockTime(moment.at)}</span>
                <Track moment={moment} lanes={lanes} />
              </button>
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

function Track({ moment, lanes }: { readonly moment: Moment; readonly lanes: readonly string[] }) {
  if (moment.kind === 'story')
    return (
      <span class="lane-wide story">
        <strong>{moment.title}</strong>
      </span>
    );
  if (moment.kind === 'claim')
    return (
      <span class={moment.held ? 'lane-wide claim' : 'lane-wide claim bad'}>
        {moment.held ? '✓' : '✗'} <Text>{moment.claim ?? ''}</Text>
      </span>
    );
  const middle = (name: string | undefined): number =>
    ((Math.max(0, lanes.indexOf(name ?? '')) + 0.5) / Math.max(1, lanes.length)) * 100;
  const lines = lanes.map((lane) => <i key={lane} class="lane-line" style={{ left: `${middle(lane)}%` }} />);
  if (moment.kind === 'event') {
    const at = middle(moment.lane);
    const place = !lanes.includes(moment.lane ?? '')
      ? { left: '8px' }
      : at > 50
        ? { right: '8px' }
        : { left: `${at}%` };
    return (
      <span class="lane-track">
        {lines}
        <span class="lane-event" style={place}>
          <span aria-hidden="true">◆</span>{' '}
          {moment.lane !== undefined && !lanes.includes(moment.lane) && <Text>{`${moment.lane}: `}</Text>}
          <Text>{moment.what ?? ''}</Text>
          {moment.process && <span class="quiet"> · process {moment.process.split('@')[0]}</span>}
        </span>
      </span>
    );
  }
  const [start, end] = [middle(moment.from), middle(moment.to)];
  const isRight = end >= start;
  const changes = changesOf(moment);
  return (
    <span class="lane-track">
      {lines}
      <span
        class={isRight ? 'arrow right' : 'arrow left'}
        style={{ left: `${Math.min(start, end)}%`, width: `${Math.abs(end - start)}%` }}
      >
        <span class="hidden">
          {moment.from} to {moment.to}:{' '}
        </span>
        <span class="arrow-words">
          <Text>{moment.what ?? ''}</Text>
          {changes.length > 0 && <b class="arrow-state">{changes.length} state</b>}
        </span>
      </span>
    </span>
  );
}

function changesOf({ carried }: Moment): readonly Carried[] {
  return carried ?? [];
}

/** What a moment carries, in full. */
export function MomentDetails({ moment }: { readonly moment: Moment }) {
  const isAnswer = moment.kind === 'message' && !/^(console|client)/.test(moment.from ?? '');
  return (
    <section class="card details" aria-label="Message">
      <h2>
        <Text>{moment.what ?? moment.title ?? moment.claim ?? ''}</Text>
      </h2>
      {moment.kind === 'message' && (
        <p class="quiet">
          <Text>{moment.from ?? ''}</Text> → <Text>{moment.to ?? ''}</Text>, {clockTime(moment.at)}
        </p>
      )}
      {(moment.says ?? moment.about) && (
        <p>
          <Text>{moment.says ?? moment.about ?? ''}</Text>
        </p>
      )}
      {moment.kind === 'message' &&
        (moment.carried?.length ? (
          <ul class="carried">
            {moment.carried.map((one) => (
              <li key={one.what}>
                <span class="badge info">{isAnswer ? (one.value === null ? 'removed' : 'set') : 'sent'}</span>{' '}
                <Text>{one.what}</Text>
                {one.sealed && (
                  <span class="quiet">
                    {' '}
                    sealed #{one.sealed.fingerprint} ({one.sealed.bytes} B)
                  </span>
                )}
                {one.secret && (
                  <span class="quiet">
                    {' '}
                    secret #{one.secret.fingerprint} ({one.secret.bytes} B)
                  </span>
                )}
                {one.value !== undefined && one.value !== null && <JsonTree value={one.value} />}
              </li>
            ))}
          </ul>
        ) : (
          <p class="quiet">This message carries no state.</p>
        ))}
    </section>
  );
}

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type ApiError, get, useMoments } from '../api.ts';
import { count, download, readJsonFile } from '../format.ts';
import { Lanes, lanesOf, MomentDetails } from '../lanes.tsx';
import type { Meta, Moment } from '../types.ts';
import { Badge, Empty, Problem, Screen } from '../ui.tsx';

const MOST = 5000;

/** The moments of the console, live. */
export function useTimeline(): {
  moments: readonly Moment[];
  error: ApiError | undefined;
  isPaused: boolean;
  setPaused: (paused: boolean) => void;
  waiting: number;
} {
  const [moments, setMoments] = useState<readonly Moment[]>([]);
  const [error, setError] = useState<ApiError>();
  const [isPaused, setPausedState] = useState(false);
  const [waiting, setWaiting] = useState(0);
  const held = useRef<Moment[]>([]);
  const paused = useRef(false);
  const frame = useRef<number | undefined>(undefined);
  const arrived = useRef<Moment[]>([]);
  const join = (added: readonly Moment[]): void =>
    setMoments((all) => {
      const last = all.at(-1)?.id ?? 0;
      return [...all, ...added.filter(({ id }) => id > last)].slice(-MOST);
    });
  useEffect(() => {
    get<{ moments: readonly Moment[] }>('timeline').then((loaded) => join(loaded.moments), setError);
  }, []);
  useMoments((moment) => {
    if (paused.current) {
      held.current.push(moment);
      setWaiting(held.current.length);
      return;
    }
    arrived.current.push(moment);
    // Many messages may arrive at once; the page draws them together.
    frame.current ??= requestAnimationFrame(() => {
      frame.current = undefined;
      join(arrived.current.splice(0));
    });
  });
  const setPaused = (next: boolean): void => {
    paused.current = next;
    setPausedState(next);
    if (!next) join(held.current.splice(0));
    setWaiting(0);
  };
  return { moments, error, isPaused, setPaused, waiting };
}

/** Messages and events as they happen. */
export function Timeline({ meta }: { readonly meta: Meta }) {
  const live = useTimeline();
  const [loaded, setLoaded] = useState<readonly Moment[]>();
  const [filter, setFilter] = useState('');
  const [kind, setKind] = useState('all');
  const [selected, setSelected] = useState<Moment>();
  const [problem, setProblem] = useState<ApiError>();
  const moments = loaded ?? live.moments;
  const shown = useMemo(() => {
    const words = filter.toLowerCase();
    return moments.filter(
      (moment) =>
        (kind === 'all' ||
          moment.kind === kind ||
          (kind === 'state' &&
            ((moment.carried?.length ?? 0) > 0 ||
              /^(set|deleted|evicted|refused)$/.test(moment.name ?? '')))) &&
        (words === '' ||
          `${moment.what} ${moment.says} ${moment.from} ${moment.to} ${moment.lane} ${moment.claim}`
            .toLowerCase()
            .includes(words)),
    );
  }, [moments, filter, kind]);
  const lanes = useMemo(() => lanesOf(moments), [moments]);
  const load = async (input: HTMLInputElement): Promise<void> => {
    const file = (await readJsonFile(input)) as { moments?: unknown } | null | undefined;
    if (file === undefined) return;
    if (!file || !Array.isArray(file.moments))
      setProblem({
        message: 'This file is not a saved timeline. Choose one that Save has written.',
      } as ApiError);
    else {
      setProblem(undefined);
      setLoaded(
        file.moments.filter((each) => typeof each === 'object' && each !== null) as readonly Moment[],
      );
    }
  };
  return (
    <Screen
      fills
      title="Timeline"
      about={
        loaded ? (
          <>
            A saved timeline: {count(loaded.length, 'moment')}.{' '}
            <button type="button" class="link" onClick={() => setLoaded(undefined)}>
              Back to live
            </button>
          </>
        ) : (
          `${count(live.moments.length, 'moment')} since the console started.`
        )
      }
      actions={
        <>
          <button
            type="button"
            class="button"
            aria-pressed={live.isPaused}
            onClick={() => live.setPaused(!live.isPaused)}
            disabled={loaded !== undefined}
          >
            {live.isPaused ? `Resume${live.waiting > 0 ? ` (${live.waiting} new)` : ''}` : 'Pause'}
          </button>
          <button
            type="button"
            class="button"
            disabled={moments.length === 0}
            onClick={() => download('timeline.json', JSON.stringify({ version: 1, moments }, undefined, 2))}
          >
            Save
          </button>
          <label class="button">
            Load
            <input
              type="file"
              accept=".json,application/json"
              class="hidden-input"
              onChange={({ currentTarget }) => void load(currentTarget)}
            />
          </label>
        </>
      }
    >
      <Problem error={live.error ?? problem} />
      <div class="filters">
        <label class="filter">
          <span class="hidden">Filter the timeline</span>
          <input
            type="search"
            placeholder="Filter by method, tool, server or state"
            value={filter}
            onInput={({ currentTarget }) => setFilter(currentTarget.value)}
          />
        </label>
        <label>
          <span class="hidden">Kind</span>
          <select value={kind} onChange={({ currentTarget }) => setKind(currentTarget.value)}>
            <option value="all">Everything</option>
            <option value="message">Messages</option>
            <option value="event">Events</option>
            <option value="state">What changes or carries state</option>
          </select>
        </label>
      </div>
      {meta.mode === 'client' && !meta.seesOthers && !loaded && (
        <p class="note">
          <Badge tone="info">Not all is seen</Badge> Messages of this console appear here, and what it does
          with the store. Other programs that use this store tell what they do if they record events:{' '}
          <code>openValise({'{ recordEvents: true }'})</code> or <code>valise connect --record-events</code>.
        </p>
      )}
      {moments.length === 0 ? (
        <Empty title="Nothing has happened yet">
          Call a tool or answer a question, and each message appears here: who sent it, and which state it
          carried.
        </Empty>
      ) : (
        <div class="timeline">
          <Lanes moments={shown} lanes={lanes} selected={selected?.id} onSelect={setSelected} />
          {selected && <MomentDetails moment={selected} />}
        </div>
      )}
    </Screen>
  );
}

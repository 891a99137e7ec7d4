import { useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { type ApiError, post, useData } from '../api.ts';
import { Fields, initialOf, type Typed } from '../form.tsx';
import { count } from '../format.ts';
import { Lanes, lanesOf, MomentDetails } from '../lanes.tsx';
import type { Field, Moment } from '../types.ts';
import { Badge, Empty, Problem, Screen, Text } from '../ui.tsx';
import { useTimeline } from './timeline.tsx';

interface TourData {
  readonly playing?: string;
  readonly stories: readonly {
    readonly name: string;
    readonly title: string;
    readonly about: string;
    readonly claims?: { readonly made: number; readonly failed: number };
  }[];
  readonly instances: readonly { readonly name: string; readonly pid: number; readonly isRunning: boolean }[];
  readonly question?: { readonly message: string; readonly fields: readonly Field[] };
}

/** The four stories, live, with buttons to kill and restart their processes. */
export function Tour() {
  const { data, error } = useData<TourData>('tour', 'tour');
  const { moments } = useTimeline();
  const [problem, setProblem] = useState<ApiError>();
  const [selected, setSelected] = useState<Moment>();
  const act = (path: string, body: object): void => {
    setProblem(undefined);
    post(path, body).catch(setProblem);
  };
  const start = useMemo(() => moments.findLastIndex(({ kind }) => kind === 'story'), [moments]);
  const shown = useMemo(() => moments.slice(Math.max(0, start)), [moments, start]);
  const lanes = useMemo(() => lanesOf(shown), [shown]);
  return (
    <Screen
      title="Tour"
      about="Four stories with real processes. Kill one in the middle, and see how the story continues."
    >
      <Problem error={error ?? problem} />
      <ul class="stories">
        {data?.stories.map(({ name, title, about, claims }) => (
          <li class="card" key={name}>
            <div class="details-head">
              <h2>{title}</h2>
              {claims && (
                <Badge tone={claims.failed === 0 ? 'good' : 'bad'}>
                  {claims.failed === 0
                    ? `all ${claims.made} claims held`
                    : `${claims.failed} claims did not hold`}
                </Badge>
              )}
            </div>
            <p class="quiet">{about}</p>
            <div class="actions">
              <button
                type="button"
                class="button"
                disabled={data.playing !== undefined}
                onClick={() => act('tour/play', { story: name })}
              >
                {data.playing === name ? 'Playing…' : claims ? 'Play again' : 'Play'}
                <span class="hidden">: {title}</span>
              </button>
            </div>
          </li>
        ))}
      </ul>
      {data?.question && <Asked question={data.question} onProblem={setProblem} />}
      {data && data.instances.length > 0 && (
        <section class="card" aria-label="Processes">
          <h2>{count(data.instances.length, 'process', 'processes')}</h2>
          <ul class="instances">
            {data.instances.map(({ name, pid, isRunning }) => (
              <li key={name}>
                <span>
                  <strong>{name}</strong> <span class="quiet">process {pid}</span>{' '}
                  <Badge tone={isRunning ? 'good' : 'bad'}>{isRunning ? 'running' : 'dead'}</Badge>
                </span>
                <button
                  type="button"
                  class={isRunning ? 'button small danger' : 'button small'}
                  disabled={data.playing === undefined}
                  onClick={() => act(isRunning ? 'tour/kill' : 'tour/restart', { name })}
                >
                  {isRunning ? `Kill ${name}` : `Restart ${name}`}
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {shown.length === 0 ? (
        <Empty title="Play a story">
          Each message appears here as it is sent, with the state that it carries.
        </Empty>
      ) : (
        <div class="timeline tall">
          <Lanes moments={shown} lanes={lanes} selected={selected?.id} onSelect={setSelected} />
          {selected && <MomentDetails moment={selected} />}
        </div>
      )}
    </Screen>
  );
}

function Asked({
  question,
  onProblem,
}: {
  readonly question: NonNullable<TourData['question']>;
  readonly onProblem: (error: ApiError) => void;
}) {
  const [typed, setTyped] = useState<Typed>({});
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({});
  // Before anybody can type into the new form.
  useLayoutEffect(() => {
    setTyped(initialOf(question.fields));
    setProblems({});
  }, [question.message]);
  const send = (action: 'accept' | 'decline'): void => {
    post<{ problems?: Record<string, string> }>('tour/answer', { action, values: typed }).then(
      (answer) => setProblems(answer.problems ?? {}),
      onProblem,
    );
  };
  return (
    <section class="card question" aria-label="Question">
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          send('accept');
        }}
      >
        <fieldset>
          <legend>
            <Text>{question.message}</Text>
          </legend>
          <Fields fields={question.fields} typed={typed} problems={problems} onChange={setTyped} />
        </fieldset>
        <div class="actions">
          <button type="submit" class="button primary">
            Accept
          </button>
          <button type="button" class="button" onClick={() => send('decline')}>
            Decline
          </button>
        </div>
      </form>
    </section>
  );
}

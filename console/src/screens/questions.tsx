import { useState } from 'preact/hooks';
import { type ApiError, post, useData } from '../api.ts';
import { Fields, initialOf, type Typed } from '../form.tsx';
import { count } from '../format.ts';
import { Result } from '../result.tsx';
import type { Meta, Outcome, Question, Round } from '../types.ts';
import { Act, Badge, Empty, JsonTree, Problem, Screen, Text, Time } from '../ui.tsx';

interface Finished {
  readonly id: string;
  readonly tool: string;
  readonly server: string;
  readonly outcome: Outcome;
}

/** An inbox of what servers ask. */
export function Questions({ meta }: { readonly meta: Meta }) {
  const { data, error, reload } = useData<{ questions: readonly Round[] }>('questions', 'questions');
  const [finished, setFinished] = useState<readonly Finished[]>([]);
  const rounds = data?.questions;
  return (
    <Screen
      title="Questions"
      about={
        rounds
          ? rounds.length === 0
            ? 'Nothing waits for you.'
            : `${count(rounds.length, 'call')} ${rounds.length === 1 ? 'waits' : 'wait'} for an answer.`
          : 'Loading…'
      }
    >
      <Problem error={error} />
      {finished.map((each) => (
        <section class="card" key={each.id} aria-label={`Result of ${each.tool}`}>
          <div class="details-head">
            <h2>
              <Text>{each.tool}</Text>
            </h2>
            <button
              type="button"
              class="button small"
              onClick={() => setFinished((all) => all.filter(({ id }) => id !== each.id))}
            >
              Dismiss
            </button>
          </div>
          <p class="quiet">
            <Text>{each.server}</Text>
          </p>
          <Result outcome={each.outcome} />
        </section>
      ))}
      {rounds?.map((round) => (
        <Waiting
          key={`${round.id} ${round.questions.map(({ key }) => key).join()}`}
          round={round}
          meta={meta}
          onDone={(outcome) => {
            setFinished((all) => [
              { id: round.id, tool: round.tool ?? round.method ?? 'call', server: round.server, outcome },
              ...all,
            ]);
            reload();
          }}
          onChange={reload}
        />
      ))}
      {rounds?.length === 0 && finished.length === 0 && (
        <Empty title="No open questions">
          When a tool asks something in the middle of its work and nobody is there to answer, the call waits
          here: for minutes or days, as long as the server allows. The answer completes the call.
        </Empty>
      )}
    </Screen>
  );
}

function Waiting({
  round,
  meta,
  onDone,
  onChange,
}: {
  readonly round: Round;
  readonly meta: Meta;
  readonly onDone: (outcome: Outcome) => void;
  readonly onChange: () => void;
}) {
  const [typed, setTyped] = useState<Readonly<Record<string, Typed>>>(() =>
    Object.fromEntries(round.questions.map(({ key, fields }) => [key, initialOf(fields)])),
  );
  const [problems, setProblems] = useState<Readonly<Record<string, Record<string, string>>>>({});
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [isLater, setLater] = useState(false);
  const [hasNext, setHasNext] = useState(false);
  const answer = async (action: 'accept' | 'decline'): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      const outcome = await post<Outcome>('questions/answer', { id: round.id, action, values: typed });
      if (outcome.problems) setProblems(outcome.problems as Record<string, Record<string, string>>);
      else if (outcome.next) {
        setHasNext(true);
        onChange();
      } else onDone(outcome);
    } catch (thrown) {
      setError(thrown as ApiError);
    }
    setBusy(false);
  };
  const drop = async (): Promise<void> => {
    await post('questions/drop', { id: round.id }).catch(setError);
    onChange();
  };
  const name = round.tool ?? round.method ?? 'A call';
  return (
    <section class="card question" aria-label={`Question of ${round.server}`}>
      <div class="details-head">
        <div>
          <h2>
            <Text>{name}</Text>
          </h2>
          <p class="quiet">
            <Text>{round.server}</Text>
            {round.session && (
              <>
                {' · session '}
                <Text>{round.session}</Text>
              </>
            )}
          </p>
        </div>
        <div class="dates">
          <span>
            asked <Time at={round.since} />
          </span>
          <span class="quiet">
            {round.expiresAt ? (
              <>
                answer until <Time at={round.expiresAt} />
              </>
            ) : (
              'no end is known'
            )}
          </span>
        </div>
      </div>
      {round.arguments !== undefined && (
        <details class="arguments">
          <summary>Arguments of the call</summary>
          <JsonTree value={round.arguments} />
        </details>
      )}
      {isLater ? (
        <p>
          <Badge>Left open</Badge> The server is told nothing; the call goes on waiting.{' '}
          <button type="button" class="link" onClick={() => setLater(false)}>
            Answer now
          </button>
        </p>
      ) : (
        <form
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            void answer('accept');
          }}
        >
          {round.questions.map((question) => (
            <One
              key={question.key}
              question={question}
              typed={typed[question.key] ?? {}}
              problems={problems[question.key] ?? {}}
              onChange={(next) => setTyped((all) => ({ ...all, [question.key]: next }))}
            />
          ))}
          <Problem error={error} />
          {hasNext && <p role="status">The server asks for more.</p>}
          <div class="actions">
            <Act write={meta.write} type="submit" tone="primary" disabled={busy}>
              {busy ? 'Sending…' : 'Accept'}
            </Act>
            <Act write={meta.write} disabled={busy} onClick={() => void answer('decline')}>
              Decline
            </Act>
            <button type="button" class="button" onClick={() => setLater(true)}>
              Later
            </button>
            <span class="grow" />
            <Act write={meta.write} disabled={busy} onClick={() => void drop()}>
              Forget the call
            </Act>
          </div>
          {!meta.write && <p class="quiet">This console only reads. Start it with --write to answer.</p>}
        </form>
      )}
    </section>
  );
}

function One({
  question,
  typed,
  problems,
  onChange,
}: {
  readonly question: Question;
  readonly typed: Typed;
  readonly problems: Readonly<Record<string, string>>;
  readonly onChange: (typed: Typed) => void;
}) {
  return (
    <fieldset>
      <legend>
        <Text>{question.message}</Text>
      </legend>
      {question.link && (
        <p>
          <Text>{question.link.words}</Text>{' '}
          {question.link.isSafe && (
            <a href={question.link.url} target="_blank" rel="noreferrer noopener">
              Open the page
            </a>
          )}
        </p>
      )}
      {!question.isForm && (
        <p class="quiet">
          The server asks for <code>{question.method}</code>, which a host answers. Here it can only be
          declined.
        </p>
      )}
      <Fields fields={question.fields} typed={typed} problems={problems} onChange={onChange} />
    </fieldset>
  );
}

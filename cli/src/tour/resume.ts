import { isObject } from 'mcp-valise/internal';
import type { ClientTask, Told } from './client-process.ts';
import type { Started } from './processes.ts';
import type { Step } from './step.ts';
import type { Story, StoryRun } from './story.ts';

const USER = 'ada';
const VAULT = 'vault';

/** Family C: a client that resumes after it was killed. */
export const resume: Story = {
  name: 'resume',
  title: 'A client killed and resumed, without signing in again',
  about:
    'The vault counts in each session and lets nobody in who has not signed in. Its client is killed; another process resumes from what the first one had stored.',
  async tell(run) {
    const store = run.settings.store('server');
    const env = { VALISE_KEYS: run.keys };
    const vault = await run.processes.serve(VAULT, 'vault', ['--with-auth', '--store', store], env);
    const lanes = ['client 1', 'client 2'] as const;
    run.show.lanes([...lanes, VAULT]);
    run.event(`${VAULT} is process ${vault.pid}, with its own authorization server`);

    const first = await visit(run, vault.url, lanes[0], ['increment', 'increment', 'whoami']);
    await first.started.kill();
    run.event(`${lanes[0]} (process ${first.started.pid}) is killed with SIGKILL; it said no farewell`);
    const second = await visit(run, vault.url, lanes[1], ['increment', 'whoami']);

    run.claim(
      `${lanes[0]} signed in once, and was killed in the middle of its session`,
      first.signIns === 1 && first.started.child.signalCode === 'SIGKILL',
    );
    const others = second.steps.filter(({ message }) => isObject(message) && 'http' in message);
    run.claim(
      `${lanes[1]} signed in nowhere: no page was opened, no token was asked for`,
      second.signIns === 0 && others.length === 0,
    );
    run.claim(
      'it continued in the same session, without a new handshake',
      second.steps.length > 0 &&
        second.steps.every(({ what }) => what !== 'initialize') &&
        sessionOf(second.steps) !== undefined &&
        sessionOf(second.steps) === sessionOf(first.steps),
    );
    run.claim(
      `the vault counted on, 1, 2, 3, and still knows who it is: ${second.texts[1]}`,
      [...first.texts, ...second.texts].join() === ['1', '2', USER, '3', USER].join(),
    );
  },
};

interface Visit {
  readonly started: Started;
  readonly steps: readonly Step[];
  readonly texts: readonly string[];
  readonly signIns: number;
}

/** Runs a client in its own process until it has performed its tasks; it stays connected. */
async function visit(run: StoryRun, url: URL, lane: string, tools: readonly string[]): Promise<Visit> {
  const started = run.processes.start(['tour', '--as-client'], {}, true);
  run.event(`${lane} is process ${started.pid}`);
  const steps: Step[] = [];
  let signIns = 0;
  const texts = await new Promise<readonly string[]>((resolve, reject) => {
    started.child.on('message', (message) => {
      const told = message as Told;
      if (told.type === 'step') {
        steps.push(told.step);
        run.show.step(told.step);
      } else if (told.type === 'sign-in') {
        signIns++;
        run.event(`${lane} opens the sign-in page, and ${USER} signs in`);
      } else if (told.type === 'done') resolve(told.texts);
      else reject(new Error(`${lane} could not continue: ${told.why}`));
    });
    started.child.once('exit', () => reject(new Error(`${lane} ended before it was done.`)));
    const { principal } = run.settings;
    started.child.send({
      url: url.href,
      store: run.settings.store('client'),
      secrets: { store: run.settings.ownStore('secrets'), keys: run.keys },
      principal,
      user: USER,
      ends: { client: lane, server: VAULT },
      tools,
    } satisfies ClientTask);
  });
  return { started, steps, texts, signIns };
}

/** Returns the session of the last call. */
function sessionOf(steps: readonly Step[]): unknown {
  const called = steps.findLast(({ what }) => what === 'tools/call');
  return called?.carried.find(({ what }) => what === 'Mcp-Session-Id')?.value;
}

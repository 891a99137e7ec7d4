import { isObject } from 'mcp-valise/internal';
import type { Elicited } from '../ask/answerer.ts';
import { isSealed } from './carried.ts';
import type { Instance } from './processes.ts';
import { type Seen, type Story, type StoryRun, textOf } from './story.ts';

const BUG = 4522;
/** The answers of the tour when nobody is at the terminal. */
const ANSWERS = { resolution: 'Duplicate', duplicateOfId: '4301' };
/** The timeout is long because a person may take a while. */
const PATIENCE_MS = 30 * 60_000;

/** Family R: a call with several questions. */
export const bug: Story = {
  name: 'bug',
  title: 'A bug resolved over two questions, on three instances',
  about:
    'The instances share their keys and nothing else. Each request goes to the next one; the one that asks first dies before the answer comes.',
  async tell(run) {
    const instances = await run.serve('work-items', 3, ['--stateless']);
    const url = await run.open(instances);
    const answers: Elicited[] = [];
    let dead: Instance | undefined;
    const answer = async (params: unknown): Promise<Elicited> => {
      if (!dead) {
        dead = asked(run).at(-1)?.instance;
        if (dead) await run.kill(dead, 'while its question is open');
      }
      const given = await run.answer(params, ANSWERS);
      answers.push(given);
      return given;
    };
    const { client } = await run.client(url, { answer });
    const result = await client.callTool(
      { name: 'update_work_item', arguments: { workItemId: BUG, fields: { 'System.State': 'Resolved' } } },
      { timeout: PATIENCE_MS },
    );

    const contexts = asked(run).map(({ message }) => requestState(message));
    run.claim(
      `${dead?.name ?? 'the instance'}, which asked first, was dead when the answer came`,
      dead?.child.signalCode === 'SIGKILL',
    );
    const after = run.seen.filter(isRetry).map(({ instance }) => instance);
    run.claim(
      `the call continued where it was, on ${listed([...new Set(after.map(({ name }) => name))])}`,
      after.length === answers.length && after.length > 0 && !after.some((each) => each === dead),
    );
    run.claim(
      'what was known so far travelled with the client, sealed',
      contexts.length > 0 && contexts.every(isSealed),
    );
    claimResult(run, answers, textOf(result));
  },
};

function claimResult(run: StoryRun, answers: readonly Elicited[], text: string): void {
  const accepted = answers.flatMap((answer) => (answer.action === 'accept' ? [answer.content] : []));
  if (accepted.length < answers.length) {
    run.claim(`without an answer nothing was resolved: ${text}`, !/ resolved as /.test(text));
    return;
  }
  const { resolution, duplicateOfId } = Object.assign({}, ...accepted) as Record<string, unknown>;
  const expected =
    duplicateOfId === undefined
      ? `Bug #${BUG} resolved as ${resolution}. State set to Resolved.`
      : `Bug #${BUG} resolved as ${resolution} of Bug #${duplicateOfId}. State set to Resolved and duplicate link created.`;
  run.claim(`the result is what ${answers.length} answers say: ${text}`, text === expected);
}

/** Returns the questions that were asked. */
function asked({ seen }: StoryRun): Seen[] {
  return seen.filter(({ from, message }) => from === 'server' && requestState(message) !== undefined);
}

function requestState(message: unknown): unknown {
  return isObject(message) && isObject(message['result']) ? message['result']['requestState'] : undefined;
}

function isRetry({ from, message }: Seen): boolean {
  const params = isObject(message) ? message['params'] : undefined;
  return from === 'client' && isObject(params) && params['inputResponses'] !== undefined;
}

function listed(names: readonly string[]): string {
  return names.length > 0 ? names.join(', then ') : 'no instance';
}

import { isObject, NAMES, readSession } from 'mcp-valise/internal';
import { type Seen, type Story, type StoryRun, textOf } from './story.ts';

/** On a busy machine, two calls may not overlap; then another two are sent. */
const MOST_PAIRS = 5;

/** Family S: a session that several calls share. */
export const notebook: Story = {
  name: 'notebook',
  title: 'A notebook session, shared by two calls in parallel',
  about:
    'Two instances share a store. Two calls write into the same notebook at the same time, one on each instance.',
  async tell(run) {
    const store = run.settings.store('server');
    const instances = await run.serve('notebook', 2, ['--stateless', '--mode', 'stored', '--store', store]);
    const url = await run.open(instances);
    const { client, valise } = await run.client(url);
    const session = await valise.sessions(client).create();
    const append = (text: string) =>
      session.run(() => client.callTool({ name: 'notebook_append', arguments: { text } }));
    const sent: string[] = [];
    while (sent.length < MOST_PAIRS * 2 && !together(run)) {
      const pair = [`note ${sent.length + 1}`, `note ${sent.length + 2}`];
      sent.push(...pair);
      await Promise.all(pair.map(append));
    }
    const read = textOf(await session.run(() => client.callTool({ name: 'notebook_read', arguments: {} })));
    const outside: unknown = await client
      .callTool({ name: 'notebook_read', arguments: {} })
      .catch((error: unknown) => error);
    await session.delete();

    const pair = together(run);
    run.claim(
      `two calls were under way at the same time, on ${pair?.map(({ instance }) => instance.name).join(' and ') ?? 'no two instances'}`,
      pair !== undefined,
    );
    run.claim(
      `nothing was lost: the notebook has all ${sent.length} notes`,
      read.split('\n').sort().join() === sent.sort().join(),
    );
    const ids = appends(run, 'client').map(({ message }) => sessionIn(message));
    run.claim(
      'the session came along with each call, named in the message itself',
      ids.length === sent.length && ids.every((id) => id === session.id),
    );
    run.claim(
      'without the session, the notebook stays closed',
      isObject(outside) && outside['code'] === NAMES.modern.code.sessionRequired,
    );
  },
};

/** Returns two calls to different instances. The second is sent before the first is answered. */
function together(run: StoryRun): [Seen, Seen] | undefined {
  const sent = appends(run, 'client');
  for (const first of sent) {
    const answer = run.seen.findIndex(
      ({ from, exchange }) => from === 'server' && exchange === first.exchange,
    );
    const start = run.seen.indexOf(first);
    const second = sent.find((each) => {
      const at = run.seen.indexOf(each);
      return each.instance !== first.instance && at > start && at < answer;
    });
    if (second) return [first, second];
  }
  return undefined;
}

function appends({ seen }: StoryRun, from: Seen['from']): Seen[] {
  return seen.filter(({ from: sender, message }) => {
    const params = isObject(message) ? message['params'] : undefined;
    return sender === from && isObject(params) && params['name'] === 'notebook_append';
  });
}

function sessionIn(message: unknown): unknown {
  const params = isObject(message) ? message['params'] : undefined;
  const session = readSession(isObject(params) ? params['_meta'] : undefined);
  return isObject(session) && 'sessionId' in session ? session.sessionId : undefined;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type ClientSession, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { child as bundle } from '../child.ts';
import { service } from '../services.ts';
import { because } from '../skip.ts';
import { type AnyClient, type Command, HOSTS, type Host, makeClient, makeTransport } from './hosts.ts';

const FILE = bundle(new URL('./sessions-teller.ts', import.meta.url));
const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const args = (...more: string[]) => [FILE, ...more];

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function connect(host: Host, to: URL | Command) {
  const valise = await openValise({ store: memoryStore(), allowLocal: true });
  const client = makeClient(host);
  // The byte edge tells when a stream breaks; the transports made by `valise.http` have it too.
  if (to instanceof URL) await valise.connect(client, to, { resume: false });
  else await valise.connect(client, makeTransport(host, to));
  closing.push(
    () => valise.close(),
    () => client.close(),
  );
  return { client, sessions: valise.sessions(client) };
}

async function serveHttp(sdk: string, store: string): Promise<URL> {
  const child = spawn(process.execPath, args('--http', '0', '--stateless', '--sdk', sdk, '--store', store), {
    env: { ...process.env, VALISE_KEYS: keys },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = once(child, 'close');
  closing.push(async () => {
    child.kill('SIGKILL');
    await gone;
  });
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer];
  return new URL(/http:\S+/.exec(chunk.toString())?.[0] as string);
}

const tell = (client: AnyClient, session: ClientSession | undefined, uri: string) => {
  const call = () => client.callTool({ name: 'tell', arguments: { uri } });
  return session ? session.run(call) : call();
};

const STDIO = HOSTS.flatMap((host) =>
  (host.era === 'modern' ? ['v2'] : ['v1', 'v2']).map((sdk) => ({ ...host, sdk })),
);

describe.each(STDIO)(
  'listening of a $client client ($era) to a $sdk server over stdio',
  ({ client: major, era, sdk }) => {
    it('[S-28] [S-29] [S-30] a listening client knows the session of each notification', async () => {
      const command = {
        command: process.execPath,
        args: args('--stdio', '--sdk', sdk),
        env: { VALISE_KEYS: keys },
      };
      const { client, sessions } = await connect({ client: major, era } as Host, command);
      const [a, b] = [await sessions.create(), await sessions.create()];
      const heard: string[] = [];
      const hear =
        (who: string) =>
        ({ method, params }: { method: string; params?: Record<string, unknown> | undefined }) =>
          heard.push(`${who} ${params?.['uri'] ?? method}`);
      await a.listen(hear('a'), era === 'modern' ? { resources: ['notes://x'] } : {});
      await b.listen(hear('b'));
      await sessions.listen(hear('all'));
      if (era === 'legacy') await a.run(() => client.subscribeResource({ uri: 'notes://x' }));
      await tell(client, a, '1');
      await tell(client, b, '2');
      await client.callTool({ name: 'tell_all' });
      await client.callTool({ name: 'touch', arguments: { uri: 'notes://x' } });
      await vi.waitFor(() =>
        expect([...heard].sort()).toEqual([
          'a 1',
          'a notes://x',
          'all notifications/tools/list_changed',
          'b 2',
        ]),
      );
    });
  },
);

describe.each(['redis', 'postgres'] as const)('listening across instances on %s', async (kind) => {
  const url = await service(kind);

  it.skipIf(!url).each([
    { client: 'v1', era: 'legacy', sdk: 'v1' },
    { client: 'v2', era: 'modern', sdk: 'v2' },
  ] as const)(
    '[S-28] [S-34] a $client client that listens on one instance receives the notifications of another',
    because('needs Redis'),
    async ({ sdk, ...host }) => {
      const [one, two] = await Promise.all([serveHttp(sdk, url as string), serveHttp(sdk, url as string)]);
      const [here, there] = [await connect(host, one), await connect(host, two)];
      const session = await here.sessions.create();
      const same = await there.sessions.resume(session.id);
      const heard: string[] = [];
      await session.listen(({ params }) => heard.push(String(params?.['uri'])));
      await here.sessions.listen(({ method }) => heard.push(method));
      for (const uri of ['1', '2', '3']) await tell(there.client, same, uri);
      await there.client.callTool({ name: 'tell_all' });
      await vi.waitFor(() =>
        expect([...heard].sort()).toEqual(['1', '2', '3', 'notifications/tools/list_changed']),
      );
      expect(heard.filter((each) => each.length === 1)).toEqual(['1', '2', '3']);
      // And when the session ends anywhere, its listeners hear so.
      const ended = session.listen(() => {}).then(({ closed }) => closed);
      await same.delete();
      await ended;
    },
  );
});

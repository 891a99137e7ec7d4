import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { rawServer } from '../client/rounds-server.ts';
import { startHttp } from '../e2e/example.ts';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });
const done =
  'Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created.\n';

async function stage(args = ['--stateless']) {
  const env = { VALISE_KEYS: generateKey() };
  const { url } = await serveExample(['work-items', ...args], env);
  return { url, env, store: ['--store', `sqlite:${join(await folder(), 'state.db')}`] };
}

/** Runs a line as a shell does that has `valise` in its path. */
async function shell(line: string, env: Readonly<Record<string, string>>): Promise<string> {
  const script = `valise() { "$NODE" "$VALISE" "$@"; }; ${line}`;
  const all = { ...process.env, ...env, NODE: process.execPath, VALISE };
  return (await promisify(execFile)('sh', ['-c', script], { env: all })).stdout;
}

describe('valise call where the server asks', () => {
  it.each([[[]], [['--era', 'legacy']], [['--era', 'legacy', '--sdk', 'v1']]])(
    '[R-14] answers from the command line, property by property (%j)',
    async (extra) => {
      const { url, env, store } = await stage();
      const answers = ['--answer', 'resolution=Duplicate', '--answer', 'duplicateOfId=4301'];
      expect(
        await valise(['call', url, 'update_work_item', bug, ...answers, ...extra, ...store], env),
      ).toMatchObject({
        code: 0,
        stdout: done,
      });
    },
  );

  it.each([
    [[], ['--stateless']],
    [['--era', 'legacy', '--sdk', 'v1'], ['--stateless']],
    [['--era', 'legacy'], []],
  ])(
    'leaves the round pending if nobody answers, and continues it in a later process (%j, server %j)',
    async (extra, args) => {
      const { url, env, store } = await stage(args);
      const left = await valise(['call', url, 'update_work_item', bug, ...extra, ...store], env);
      expect(left).toMatchObject({
        code: 3,
        stdout: '',
        stderr: expect.stringContaining('valise pending answer'),
      });
      const { pending } = await valiseJson<{
        pending: { id: string; questions: { params: { message: string } }[] }[];
      }>(['pending', ...store], env);
      expect(pending).toHaveLength(1);
      expect(pending[0]?.questions[0]?.params.message).toMatch(/requires a resolution/);
      const { id } = pending[0]!;
      const answer = (text: string) =>
        valise(['pending', 'answer', id, '--answer', text, ...extra, ...store], env);
      expect(await answer('resolution=Duplicate')).toMatchObject({ code: 3 });
      // Neither what was answered before, nor what the server has its clients carry.
      const params = { name: 'update_work_item', arguments: JSON.parse(bug) };
      const asked = await valiseJson<{ pending: { call: unknown }[] }>(['pending', ...store], env);
      expect(asked.pending[0]?.call).toEqual({ method: 'tools/call', params });
      expect(await answer('duplicateOfId=4301')).toMatchObject({ code: 0, stdout: done });
      expect((await valise(['pending', ...store], env)).stdout).toBe('Nothing waits for an answer.\n');
    },
  );

  it('continues in the era that the round was asked in by default', async () => {
    const keys = generateKey();
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    // A server does not inherit the environment.
    const server = `stdio:env VALISE_KEYS=${keys} ${process.execPath} ${VALISE} example work-items --stdio`;
    for (const era of ['legacy', 'modern']) {
      const left = await valise(['call', server, 'update_work_item', bug, '--era', era, ...store]);
      expect(left).toMatchObject({ code: 3, stderr: expect.stringContaining('valise pending answer') });
      const list = () => valiseJson<{ pending: { id: string }[] }>(['pending', ...store]);
      const { pending } = await list();
      expect(pending).toMatchObject([{ era }]);
      const { id } = pending[0]!;
      const answer = (text: string) => valise(['pending', 'answer', id, '--answer', text, ...store]);
      expect(await answer('resolution=Duplicate')).toMatchObject({ code: 3 });
      expect(await list()).toMatchObject({ pending: [{ id, era }] });
      expect(await answer('duplicateOfId=4301')).toMatchObject({ code: 0, stdout: done });
      expect(await list()).toEqual({ pending: [] });
    }
  });

  it('refuses an answer that does not fit, before the server sees it, and leaves nothing behind', async () => {
    const { url, env, store } = await stage();
    const wrong = await valise(
      ['call', url, 'update_work_item', bug, '--answer', 'resolution=Perhaps', ...store],
      env,
    );
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain("Choose one of: Fixed, Won't Fix, Duplicate, By Design.");
    expect((await valise(['pending', ...store], env)).stdout).toBe('Nothing waits for an answer.\n');
    expect(
      (await valise(['call', url, 'update_work_item', bug, '--answer', 'nonsense', ...store], env)).stderr,
    ).toContain('is not FIELD=VALUE');
  });

  it.each([[[]], [['--era', 'legacy']]])(
    'keeps a pending round whose answer does not fit, and says so (%j)',
    async (extra) => {
      const { url, env, store } = await stage();
      const common = [...extra, ...store];
      const { pending } = await valiseJson<{ pending: string }>(
        ['call', url, 'update_work_item', bug, ...common],
        env,
      );
      const answer = (text: string) =>
        valise(['pending', 'answer', pending, '--answer', text, ...common], env);
      const wrong = await answer('resolution=Perhaps');
      expect(wrong.code).toBe(1);
      expect(wrong.stderr).toContain('"Perhaps" does not fit resolution. Choose one of: Fixed,');
      expect(wrong.stderr).toContain(`still waits: valise pending answer ${pending} --store`);
      expect(await answer('resolution=Fixed')).toMatchObject({ code: 0 });
    },
  );

  it('names the round that it is about, and no other', async () => {
    const { url, env, store } = await stage();
    const call = async () =>
      (await valiseJson<{ pending: string }>(['call', url, 'update_work_item', bug, ...store], env)).pending;
    const [first, second] = [await call(), await call()];
    for (const answers of [[], ['--answer', 'colour=red']]) {
      const { code, stderr } = await valise(['pending', 'answer', first, ...answers, ...store], env);
      expect(code).toBe(3);
      expect(stderr).toContain(`valise pending answer ${first}`);
      expect(stderr).not.toContain(second);
      expect(stderr.includes('colour of --answer is not asked here.')).toBe(answers.length > 0);
    }
  });

  it('says what is asked, and how to continue, with a command that works as it stands', async () => {
    const { url, env, store } = await stage();
    const common = [...store, '--principal', "Ada's", '--era', 'legacy', '--sdk', 'v1'];
    const { stderr } = await valise(['call', url, 'update_work_item', bug, ...common], env);
    expect(stderr).toContain('The server asks: Resolving Bug #4522 requires a resolution.');
    expect(stderr).toContain(
      "  resolution=Fixed|Won't Fix|Duplicate|By Design   Resolution type for this bug\n",
    );
    expect((await valise(['pending', ...store, '--principal', "Ada's"], env)).stdout).toContain(
      "  resolution=Fixed|Won't Fix|Duplicate|By Design\n",
    );
    const command = /^ {2}(valise pending answer .+)$/m.exec(stderr)?.[1] ?? '';
    expect(await shell(`${command} --answer resolution=Fixed`, env)).toBe(
      'Bug #4522 resolved as Fixed. State set to Resolved.\n',
    );
  });

  it.each([[[]], [['--era', 'legacy']], [['--era', 'legacy', '--sdk', 'v1']]])(
    'says when the question expires (%j)',
    async (extra) => {
      const { url, env, store } = await stage();
      const call = ['call', url, 'update_work_item', bug, ...extra, ...store];
      const { stderr } = await valise(call, env);
      expect(stderr).toContain('The question expires in 9 minutes. Answer it with:');
      expect(stderr).not.toMatch(/at any time/);
      expect((await valise(['pending', ...store], env)).stdout).toMatch(/EXPIRES[\s\S]* {2}in 9 minutes {2}/);
      const told = await valiseJson<{ pending: string; expiresAt: string }>(call, env);
      const { pending } = await valiseJson<{ pending: { id: string; expiresAt: string }[] }>(
        ['pending', ...store],
        env,
      );
      expect(new Date(told.expiresAt).toISOString()).toBe(told.expiresAt);
      expect(pending.find(({ id }) => id === told.pending)?.expiresAt).toBe(told.expiresAt);
    },
  );

  it('says that a round is over if the server no longer accepts it', async () => {
    const { url, env, store } = await stage();
    const { pending } = await valiseJson<{ pending: string }>(
      ['call', url, 'update_work_item', bug, ...store],
      env,
    );
    // Without keys of its own, a server makes one up: what others have sealed is over for it.
    const other = await serveExample(['work-items', '--stateless'], {});
    const late = await valise(
      ['pending', 'answer', pending, other.url, '--answer', 'resolution=Fixed', ...store],
      env,
    );
    expect(late.code).toBe(1);
    expect(late.stderr).toMatch(/Invalid or expired requestState.* The call is over.* Make it again\./);
    expect((await valise(['pending', ...store], env)).stdout).toBe('Nothing waits for an answer.\n');
  });

  it('continues a round at the current address of its server', async () => {
    const { url, env, store } = await stage();
    const { pending } = await valiseJson<{ pending: string }>(
      ['call', url, 'update_work_item', bug, ...store],
      env,
    );
    const moved = await serveExample(['work-items', '--stateless'], env);
    expect(
      await valise(['pending', 'answer', pending, moved.url, '--answer', 'resolution=Fixed', ...store], env),
    ).toMatchObject({ code: 0 });
  });

  it('continues in the session of the call', async () => {
    const server = await startHttp('greeter', ['--stateless'], { VALISE_KEYS: generateKey() });
    onTestFinished(async () => void (await server.stop('SIGTERM')));
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const call = ['call', server.url.href, 'greet_gated', '--session', 'diary', ...store];
    const { pending } = await valiseJson<{ pending: string }>(call);
    const answered = await valise(['pending', 'answer', pending, '--answer', 'name=Ada', ...store]);
    expect(answered.stdout).toMatch(/^Hello Ada of sess-\S+, 1\.\n$/);
    expect((await valise([...call, '--answer', 'name=Ada'])).stdout).toMatch(
      /^Hello Ada of sess-\S+, 2\.\n$/,
    );
  });

  it('leaves the round pending where the connection breaks over the answer, and says so', async () => {
    const schema = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}';
    const question = `{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":${schema}}}`;
    const server = await rawServer(({ message }) => {
      if (!message.dependent_responses)
        return `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"dependent_requests":{"state":"s","requests":[${question}]}}`;
      void server.close();
      return undefined;
    });
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const call = ['call', server.url.href, 'any', '--answer', 'name=Ada', '--era', 'legacy', ...store];
    const { code, stderr } = await valise(call);
    expect(stderr).toMatch(/broke off before the call.*\nThe server asks: Name\?\n {2}name=TEXT\n/);
    expect(stderr).toMatch(/valise pending answer [0-9a-f]+ --store/);
    expect(code).toBe(3);
  });

  it('says how to answer a server that cannot wait', async () => {
    const server = await startHttp('greeter', ['--no-edge']);
    onTestFinished(async () => void (await server.stop('SIGTERM')));
    const call = ['call', server.url.href, 'greet', '--era', 'legacy', '--store', 'memory:'];
    const { code, stdout, stderr } = await valise(call);
    // What the server makes of our refusal ("MCP error -31061: …") is nothing to read.
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('The server asks: Who are you?\n  name=TEXT\n');
    expect(stderr).toContain('cannot wait for the answer. Call again with --answer name=…');
    expect(await valise([...call, '--answer', 'name=Ada'])).toMatchObject({ code: 0 });
  });

  it('drops a pending round', async () => {
    const { url, env, store } = await stage();
    const { pending } = await valiseJson<{ pending: string }>(
      ['call', url, 'update_work_item', bug, ...store],
      env,
    );
    expect(await valiseJson(['pending', 'drop', pending, ...store], env)).toEqual({ dropped: true });
    expect((await valise(['pending', 'drop', pending, ...store], env)).code).toBe(1);
    expect(await valise(['pending', 'answer', pending, ...store], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Nothing waits'),
    });
  });
});

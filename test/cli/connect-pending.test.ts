import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { type HostOptions, kill, sdkHost } from './sdk-hosts.ts';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

const BUG = {
  name: 'update_work_item',
  arguments: { workItemId: 4522, fields: { 'System.State': 'Resolved' } },
};
const DONE = 'Bug #4522 resolved as Fixed. State set to Resolved.';

interface Listed {
  readonly pending: readonly { readonly id: string; readonly call?: { readonly method: string } }[];
}

/** A server, and what leads to it. `--stateless` keeps no sessions of the transport. */
const WAYS = {
  HTTP: async (env: Record<string, string>) => (await serveExample(['work-items'], env)).url,
  'stateless HTTP': async (env: Record<string, string>) =>
    (await serveExample(['work-items', '--stateless'], env)).url,
  // A server does not inherit the environment.
  stdio: async ({ VALISE_KEYS }: Record<string, string>) =>
    `stdio:env VALISE_KEYS=${VALISE_KEYS} ${process.execPath} ${VALISE} example work-items --stdio`,
};

async function stage(way: keyof typeof WAYS) {
  const env = { VALISE_KEYS: generateKey() };
  const target = await WAYS[way](env);
  const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
  const command = [process.execPath, VALISE, 'connect', target, ...store] as const;
  return { env, store, command: [...command] as [string, ...string[]] };
}

const CASES = [
  { host: 'v1', way: 'HTTP' },
  { host: 'v1', way: 'stdio' },
  { host: 'v2', way: 'stateless HTTP' },
  { host: 'v2 auto', way: 'HTTP' },
  { host: 'v2 auto', way: 'stdio' },
] as const;

const asked: HostOptions = {
  capabilities: { elicitation: {} },
  answers: { 'elicitation/create': () => ({ action: 'accept', content: { resolution: 'Fixed' } }) },
};

describe.each(CASES)(
  'a $host host before a server over $way that asks',
  { timeout: 60_000 },
  ({ host, way }) => {
    it('leaves the question to valise pending where it cannot be asked', async () => {
      const { env, store, command } = await stage(way);
      const { client, log } = await sdkHost(host, command, { env });
      const { isError, content } = await client.callTool(BUG);
      expect(isError).toBe(true);
      // What a model reads says who has to answer, and gives it no command to do so in the user's place.
      expect(content).toEqual([{ type: 'text', text: expect.stringMatching(/^[^.\n]*the user[^.\n]*\.$/) }]);
      expect(JSON.stringify(content)).not.toMatch(/pending answer|--answer/);
      expect(JSON.stringify(content)).toContain('the question expires in 9 minutes');
      await expect.poll(log).toMatch(/--answer FIELD=VALUE/);
      const text = log();
      expect(text).toContain('requires a resolution');
      expect(text).toContain('The question expires in 9 minutes. Answer it with:');
      const [, id] = /valise pending answer (\S+) (?:.*) --answer FIELD=VALUE/.exec(text) ?? [];
      const { pending } = await valiseJson<Listed>(['pending', ...store], env);
      expect(pending).toMatchObject([{ id, call: { method: 'tools/call' } }]);
      const [, , ...options] = (/valise (pending answer .*) --answer/.exec(text)?.[1] ?? '').split(' ');
      expect(
        await valise(['pending', 'answer', ...options, '--answer', 'resolution=Fixed'], env),
      ).toMatchObject({ code: 0, stdout: `${DONE}\n` });
      expect((await valiseJson<Listed>(['pending', ...store], env)).pending).toEqual([]);
      // The host goes on as before.
      expect((await client.listTools()).tools.map(({ name }) => name)).toContain('update_work_item');
    });

    it('is asked where it can be', async () => {
      const { env, store, command } = await stage(way);
      const { client } = await sdkHost(host, command, { env, ...asked });
      expect(await client.callTool(BUG)).toMatchObject({ content: [{ text: DONE }] });
      expect((await valiseJson<Listed>(['pending', ...store], env)).pending).toEqual([]);
    });

    it('is killed while it is asked, and the question waits', async () => {
      const { env, store, command } = await stage(way);
      let reached = () => {};
      const asking = new Promise<void>((resolve) => (reached = resolve));
      const never = () => {
        reached();
        return new Promise(() => {});
      };
      const running = await sdkHost(host, command, {
        ...asked,
        env,
        answers: { 'elicitation/create': never },
      });
      const call = running.client.callTool(BUG);
      call.catch(() => {});
      await asking;
      await kill(running);
      const { pending } = await valiseJson<Listed>(['pending', ...store], env);
      expect(pending).toHaveLength(1);
      // The round itself knows the era that it was asked in.
      const extra = ['--answer', 'resolution=Fixed', ...store];
      expect(await valise(['pending', 'answer', pending[0]?.id ?? '', ...extra], env)).toMatchObject({
        code: 0,
        stdout: `${DONE}\n`,
      });
    });
  },
);

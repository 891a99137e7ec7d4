import { mkdir, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { sdkHost } from './sdk-hosts.ts';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

const bug = { workItemId: 4522, fields: { 'System.State': 'Resolved' } };
const CALL = ['update_work_item', JSON.stringify(bug)];
const ANSWER = ['--answer', 'resolution=Fixed'];
const DONE = 'Bug #4522 resolved as Fixed. State set to Resolved.\n';

/** What it seals opens in another process only with the same keys, which it has to be handed. */
const WORK_ITEMS = `stdio:${process.execPath} ${VALISE} example work-items --stdio`;
/** Ends at once where it is handed nothing. */
const NEEDS = `stdio:sh -c 'test -n "$VALISE_KEYS" && exec ${process.execPath} ${VALISE} example work-items --stdio'`;

async function stage() {
  const place = await folder();
  const store = ['--store', `sqlite:${join(place, 'state.db')}`];
  const pending = async (env = {}): Promise<string> => {
    const listed = await valiseJson<{ pending: { id: string }[] }>(['pending', ...store], env);
    return listed.pending[0]?.id ?? '';
  };
  return { env: { VALISE_KEYS: generateKey() }, place, store, pending };
}

describe('variables that a server which is a command is handed', { timeout: 60_000 }, () => {
  it('are named by --env, and named again by the command that continues the call', async () => {
    const { env, store, pending } = await stage();
    const handing = ['--env', 'VALISE_KEYS', ...store];
    const left = await valise(['call', WORK_ITEMS, ...CALL, ...handing], env);
    expect(left.code).toBe(3);
    expect(left.stderr).toMatch(/valise pending answer \S+ .*--env VALISE_KEYS/);
    const id = await pending(env);
    expect(await valise(['pending', 'answer', id, ...ANSWER, ...handing], env)).toMatchObject({
      code: 0,
      stdout: DONE,
    });
  });

  it('are handed on by valise connect, which says where an answer needs them', async () => {
    const { env, store } = await stage();
    const command = [process.execPath, VALISE, 'connect', NEEDS, '--env', 'VALISE_KEYS', ...store] as const;
    const { client, log } = await sdkHost('v1', [...command], { env });
    await client.callTool({ name: 'update_work_item', arguments: bug });
    await expect.poll(log).toMatch(/--answer FIELD=VALUE/);
    expect(log()).toContain('Use a terminal that has the same VALISE_KEYS as this host.');
    const [, id, options] = /valise pending answer (\S+) (.*) --answer FIELD=VALUE/.exec(log()) ?? [];
    const answer = ['pending', 'answer', id ?? '', ...(options ?? '').split(' '), ...ANSWER];
    expect(await valise(answer, env)).toMatchObject({ code: 0, stdout: DONE });
  });

  it('are said to be missing where a server does not start for an answer', async () => {
    const { env, store, pending } = await stage();
    const handing = ['--env', 'VALISE_KEYS', ...store];
    expect(await valise(['call', NEEDS, ...CALL, ...handing], env)).toMatchObject({ code: 3 });
    const id = await pending(env);
    const failed = await valise(['pending', 'answer', id, ...ANSWER, ...store], env);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain('variables that it was given when it asked are not kept');
    expect(failed.stderr).toMatch(/valise pending answer \S+ .*--env NAME/);
    expect(await valise(['pending', 'answer', id, ...ANSWER, ...handing], env)).toMatchObject({ code: 0 });
  });

  it.each([
    ['TOKEN_NOT_SET', 'The variable TOKEN_NOT_SET, which --env names, is not set.'],
    ['TOKEN=s3cret', '--env takes the name of a variable'],
    ['', '--env takes the name of a variable'],
  ])('are refused where --env has %j, without what may be a secret', async (name, said) => {
    const { store } = await stage();
    const ran = await valise(['list', WORK_ITEMS, '--env', name, ...store]);
    expect(ran).toMatchObject({ code: 2, stdout: '' });
    expect(ran.stderr).toContain(said);
    expect(ran.stderr).not.toContain('s3cret');
  });

  it('are of no use to a server over HTTP', async () => {
    const { url } = await serveExample(['shop']);
    const { code, stderr } = await valise(['list', url, '--env', 'PATH', '--store', 'memory:']);
    expect(code).toBe(0);
    expect(stderr).toContain('valise: --env PATH was not used: only a server that is a command');
  });

  it('are named in what a host is configured with', async () => {
    const { stdout, stderr } = await valise([
      ...['connect', '--print-config', 'claude', 'stdio:server'],
      ...['--env', 'TOKEN'],
    ]);
    expect(JSON.parse(stdout).mcpServers.server.args.slice(-2)).toEqual(['--env', 'TOKEN']);
    expect(stderr).toContain('add "env": { "TOKEN": "…" } to the entry');
  });
});

describe('the folder of a server that is a command', { timeout: 60_000 }, () => {
  it('is that of the call, wherever its question is answered', async () => {
    const { env, place, store, pending } = await stage();
    await symlink(VALISE, join(place, 'launcher.js'));
    const target = `stdio:env VALISE_KEYS=${env.VALISE_KEYS} ${process.execPath} launcher.js example work-items --stdio`;
    expect(await valise(['call', target, ...CALL, ...store], {}, VALISE, place)).toMatchObject({ code: 3 });
    const answer = ['pending', 'answer', await pending(), ...ANSWER, ...store];
    expect(await valise(answer, {}, VALISE, await folder())).toMatchObject({ code: 0, stdout: DONE });
  });

  it('is named where it is gone', async () => {
    const { place, store, pending } = await stage();
    const gone = join(place, 'gone');
    await mkdir(gone);
    expect(await valise(['call', WORK_ITEMS, ...CALL, ...store], {}, VALISE, gone)).toMatchObject({
      code: 3,
    });
    await rm(gone, { recursive: true });
    const id = await pending();
    const failed = await valise(['pending', 'answer', id, ...ANSWER, ...store]);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain(
      `The folder ${gone}, in which the server was started, is not there any more.`,
    );
    expect(failed.stderr).toContain(`valise pending answer ${id} TARGET`);
  });
});

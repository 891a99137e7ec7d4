import { openValise } from 'mcp-valise/client';
import { describe, expect, it, vi } from 'vitest';
import { startHttp } from '../e2e/example.ts';
import { ask, MAJORS, signIn, vaultStage } from './vault.ts';

const stage = vaultStage();
const NAMES = [
  ...['set', 'deleted', 'evicted', 'refused', 'session-ended', 'session-refused', 'resumed', 'renewed'],
  ...['sign-in-elsewhere', 'signed-in', 'refreshed', 'warning'],
] as const;

/** Notes all that a Valise tells. */
function listen(valise: Awaited<ReturnType<typeof openValise>>): [name: string, event: unknown][] {
  const heard: [string, unknown][] = [];
  for (const name of NAMES) valise.on(name as 'warning', (event) => heard.push([name, event]));
  return heard;
}

describe.each(MAJORS)('a $major client of a server with a secret in its URL', ({ make }) => {
  it('Events do not contain the query values of a server URL', async () => {
    const url = `${stage.vault.url}?api_key=s3cret&t0ken`;
    const shown = `${stage.vault.url}?api_key=…&…`;
    const redirect = (page: URL) => signIn(page).then(() => undefined);
    const heard: [string, unknown][] = [];
    const start = async () => {
      const valise = await openValise({ store: stage.store });
      const client = make();
      stage.opened.push({ valise, client });
      const own = listen(valise);
      await valise.connect(client, url, { fetch: stage.vault.fetch, auth: { redirect } });
      await ask(client, 'increment');
      heard.push(...own);
      return { valise, client, own };
    };
    const first = await start();
    await first.client.close();
    const second = await start();
    await stage.vault.revoke('AccessToken');
    await ask(second.client, 'increment');
    heard.push(...second.own);
    // A store that fails makes warnings.
    vi.spyOn(stage.store, 'put').mockRejectedValue(new Error(`no room for ${url}`));
    const third = await openValise({ store: stage.store });
    const client = make();
    stage.opened.push({ valise: third, client });
    heard.push(...(await warned(third, client, url)));
    const names = new Set(heard.map(([name]) => name));
    for (const name of ['signed-in', 'resumed', 'refreshed']) expect(names).toContain(name);
    expect(heard.find(([name]) => name === 'signed-in')?.[1]).toMatchObject({ target: shown });
    expect(JSON.stringify(heard)).not.toMatch(/s3cret|t0ken/);
    // What is listed is for signing out with, and is the whole URL.
    expect(await second.valise.connections.list(url)).toMatchObject([{ target: url }]);
  });

  it('The session-ended event does not contain the query values of a server URL', async () => {
    const { url, stop } = await startHttp('notebook');
    const valise = await openValise({ store: 'memory:', allowLocal: true });
    const heard = listen(valise);
    const client = make();
    stage.opened.push({ valise, client });
    await valise.connect(client, `${url}?api_key=s3cret`);
    const session = await valise.sessions(client).create();
    await session.delete();
    await stop('SIGTERM');
    expect(heard.map(([name]) => name)).toContain('session-ended');
    expect(JSON.stringify(heard)).not.toContain('s3cret');
  });
});

/** What a Valise tells while it connects with a store that takes nothing. */
async function warned(
  valise: Awaited<ReturnType<typeof openValise>>,
  client: ReturnType<(typeof MAJORS)[number]['make']>,
  url: string,
): Promise<[string, unknown][]> {
  const heard = listen(valise);
  await valise.connect(client, url, { fetch: stage.vault.fetch }).catch(() => undefined);
  return heard;
}

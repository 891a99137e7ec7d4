import { openValise } from 'mcp-valise/client';
import { describe, expect, it } from 'vitest';
import { ODD_LINES, rawStatus } from '../raw-http.ts';
import { ask, MAJORS, signIn, vaultStage } from './vault.ts';

const stage = vaultStage();

describe.each(MAJORS)('a $major client that waits for its user', ({ make }) => {
  it('The listener answers malformed request targets with 400, and the sign-in continues', async () => {
    const answers = new Map<string, number>();
    const redirect = async (page: URL) => {
      const back = new URL(page.searchParams.get('redirect_uri') ?? '');
      const state = page.searchParams.get('state');
      for (const line of ODD_LINES) answers.set(line, await rawStatus(back.port, line));
      // A whole URL is what a proxy is sent. It must not answer for another host, nor end the sign-in.
      const whole = `GET ${back}?state=${state}&code=stolen`;
      answers.set('whole', await rawStatus(back.port, whole));
      const path = `GET /callback?state=${state}&code=stolen`;
      answers.set('another host', await rawStatus(back.port, path, 'evil.example'));
      answers.set('another path', await rawStatus(back.port, `GET //callback?state=${state}&code=stolen`));
      await signIn(page, { name: 'alice' });
    };
    const valise = await openValise({ store: stage.store });
    const client = make();
    stage.opened.push({ valise, client });
    await valise.connect(client, stage.vault.url, { auth: { redirect } });
    expect(await ask(client, 'whoami')).toBe('alice');
    const { whole, 'another host': host, 'another path': path, ...odd } = Object.fromEntries(answers);
    expect({ whole, host, path }).toEqual({ whole: 400, host: 404, path: 404 });
    for (const [line, status] of Object.entries(odd)) {
      const isPath = line.includes(' /');
      const expected = line.startsWith('CONNECT') ? [0, 400] : isPath ? [400, 404] : [400];
      expect(expected, line).toContain(status);
    }
  });
});

import { openValise } from 'mcp-valise/client';
import { telemetry } from 'mcp-valise/otel';
import { describe, expect, it } from 'vitest';
import { ask, MAJORS, signIn, vaultStage } from '../client/vault.ts';
import { collect } from './collected.ts';

const stage = vaultStage();

describe.each(MAJORS)('The telemetry of a $major client', ({ make }) => {
  it('counts each access token that it refreshes, and contains no token', async () => {
    const collected = collect();
    const valise = await openValise({ store: stage.store, telemetry: telemetry() });
    const client = make();
    stage.opened.push({ valise, client });
    const redirect = (page: URL) => signIn(page).then(() => undefined);
    await valise.connect(client, stage.vault.url, { fetch: stage.vault.fetch, auth: { redirect } });
    await ask(client, 'increment');
    expect(await collected.points('valise.oauth.refreshes')).toEqual([]);
    for (const count of [1, 2]) {
      await stage.vault.revoke('AccessToken');
      await ask(client, 'increment');
      expect(await collected.points('valise.oauth.refreshes')).toMatchObject([{ value: count }]);
    }
    const all = JSON.stringify([
      collected.spans().map(({ name, attributes, links, events }) => [name, attributes, links, events]),
      await collected.points(),
    ]);
    expect(all).not.toMatch(/Bearer|access_token|refresh_token/);
  });
});

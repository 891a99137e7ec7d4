import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openValise } from 'mcp-valise/client';
import { describe, expect, it } from 'vitest';
import { child as bundle } from '../child.ts';
import { askable, RESOLVE, RESOLVED, stage } from './rounds-stage.ts';

const host = bundle(new URL('./rounds-host.ts', import.meta.url));
const accept = (content: object) => ({ action: 'accept', content });

describe.each([
  { sdk: 'v1', client: 'v1', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'modern' },
] as const)('a $client host, $era, that is killed while a question is open', ({ sdk, client, era }) => {
  it('a host that was killed offers the open question again at its next start, and the call completes', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'valise-host-'));
    const store = `sqlite:${folder}/state.db`;
    const server = await stage({ sdk, instances: 1 });
    const url = server.urls[0] as URL;
    const child = spawn(process.execPath, [host, url.href, store, client, era], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [asked] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
    expect(asked).toContain('How was this bug resolved?');
    child.kill('SIGKILL');
    await once(child, 'close');

    const valise = await openValise({ store });
    const [round] = await valise.pending.list();
    expect(round).toMatchObject({
      server: url.href,
      call: { method: 'tools/call', params: { name: 'update_work_item', arguments: RESOLVE } },
    });
    const next = askable(client, era, () => accept({}));
    await valise.connect(next, url);
    expect(await valise.pending.answer(round!.id, accept({ resolution: 'Duplicate' }))).toMatchObject({
      done: false,
    });
    expect(await valise.pending.answer(round!.id, accept({ duplicateOfId: 4301 }))).toMatchObject({
      done: true,
      result: { content: [{ text: RESOLVED }] },
    });
    await next.close();
    await valise.close();
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  });
});

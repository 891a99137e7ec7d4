import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startHttp } from '../e2e/example.ts';
import { because } from '../skip.ts';
import { hasTmux, onTerminal } from './tmux.ts';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });

describe.skipIf(!hasTmux)('a person at a terminal', { timeout: 180_000, ...because('needs tmux') }, () => {
  it('answers what the server asks of valise call: a choice, then a number that is checked', async () => {
    const { url } = await serveExample(['work-items', '--stateless']);
    const terminal = await onTerminal([
      process.execPath,
      VALISE,
      'call',
      url,
      'update_work_item',
      bug,
      '--store',
      'memory:',
    ]);
    await terminal.shows(/How was this bug resolved\?[\s\S]*● Accept/);
    expect(await terminal.screen()).toContain('expires in 9 minutes');
    await terminal.type('Enter');
    await terminal.shows(/● Fixed/);
    await terminal.type('Down', 'Down', 'Enter');
    await terminal.shows(/duplicate[\s\S]*● Accept/i);
    await terminal.type('Enter');
    await terminal.shows(/Work item ID of the original bug/);
    await terminal.type('nonsense', 'Enter');
    await terminal.shows(/Write a number\./);
    await terminal.type('C-u', '4301', 'Enter');
    await terminal.shows(/exit code 0/);
    expect(await terminal.screen()).toContain('Bug #4522 resolved as Duplicate of Bug #4301.');
  });

  it.each([
    {
      words: ['connect', 'http://127.0.0.1:3000/mcp', '--store', 'memory:'],
      next: 'valise connect --print-config',
    },
    { words: ['example', 'shop', '--stdio'], next: 'valise list' },
  ])('is told that $words waits for a program', async ({ words, next }) => {
    const terminal = await onTerminal([process.execPath, VALISE, ...words]);
    await terminal.shows(/waiting for a program that speaks MCP/);
    expect((await terminal.screen()).replaceAll('\n', '')).toContain(next);
    await terminal.type('C-d');
    await terminal.shows(/exit code 0/);
  });

  it.each(['v1', 'v2'])('types what is secret unseen (%s)', async (sdk) => {
    const server = await startHttp('greeter', ['--stateless']);
    onTestFinished(async () => void (await server.stop('SIGTERM')));
    const call = [VALISE, 'call', server.url.href, 'unlock', '--sdk', sdk, '--store', 'memory:'];
    const terminal = await onTerminal([process.execPath, ...call]);
    await terminal.shows(/What is the secret\?[\s\S]*● Accept/);
    await terminal.type('Enter');
    await terminal.shows(/◆ {2}secret/);
    await terminal.type('short', 'Enter');
    await terminal.shows(/At least 8 characters\./);
    await terminal.type('C-u', 'harbour-seven', 'Enter');
    await terminal.shows(/It has 13 letters\.\s+exit code 0/);
    const screen = await terminal.screen();
    for (const word of ['short', 'harbour', 'seven']) expect(screen).not.toContain(word);
  });

  it.each(['legacy', 'modern'])('is asked one after another what a server asks at once (%s)', async (era) => {
    const server = await startHttp('greeter', ['--stateless']);
    onTestFinished(async () => void (await server.stop('SIGTERM')));
    const call = [VALISE, 'call', server.url.href, 'introduce', '--era', era, '--store', 'memory:'];
    const terminal = await onTerminal([process.execPath, ...call]);
    await terminal.shows(/What is your name\?[\s\S]*● Accept/);
    await terminal.type('Enter');
    await terminal.shows(/◆ {2}name/);
    expect(await terminal.screen()).not.toContain('What is your place?');
    await terminal.type('Ada', 'Enter');
    await terminal.shows(/◆ {2}name of birth/);
    await terminal.type('Byron', 'Enter');
    await terminal.shows(/What is your place\?[\s\S]*● Accept/);
    await terminal.type('Enter');
    await terminal.shows(/◆ {2}place/);
    await terminal.type('London', 'Enter');
    await terminal.shows(/◆ {2}place of birth/);
    await terminal.type('Marylebone', 'Enter');
    await terminal.shows(/You are Ada\/Byron of London\/Marylebone\.\s+exit code 0/);
  });

  it('shows a call that was left pending, leaves it with Esc or Ctrl+C, and continues it', async () => {
    const env = { VALISE_KEYS: generateKey() };
    const { url } = await serveExample(['work-items', '--stateless'], env);
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const { pending } = await valiseJson<{ pending: string }>([
      'call',
      url,
      'update_work_item',
      bug,
      ...store,
    ]);
    const answer = [process.execPath, VALISE, 'pending', 'answer', pending, ...store];
    for (const key of ['Escape', 'C-c']) {
      const looking = await onTerminal(answer);
      await looking.shows(/● Accept[\s\S]*○ Decline[\s\S]*○ Later/);
      await looking.type(key);
      await looking.shows(/exit code 3/);
    }
    const terminal = await onTerminal(answer);
    await terminal.shows(/● Accept/);
    await terminal.type('Enter');
    await terminal.shows(/● Fixed/);
    await terminal.type('Enter');
    await terminal.shows(/exit code 0/);
    expect(await terminal.screen()).toContain('Bug #4522 resolved as Fixed.');
    expect((await valise(['pending', ...store])).stdout).toBe('Nothing waits for an answer.\n');
  });
});

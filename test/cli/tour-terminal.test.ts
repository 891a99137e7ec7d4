import { describe, expect, it } from 'vitest';
import { because } from '../skip.ts';
import { hasTmux, onTerminal } from './tmux.ts';
import { VALISE } from './valise.ts';

describe.skipIf(!hasTmux)('valise tour on a terminal', { timeout: 180_000, ...because('needs tmux') }, () => {
  it('waits for a person, whose answers decide how the story continues', async () => {
    const terminal = await onTerminal([process.execPath, VALISE, 'tour', '--story', 'bug']);
    await terminal.shows(/● Accept/);
    await terminal.type('Enter');
    await terminal.shows(/How was this bug resolved\?[\s\S]*● Fixed/);
    expect(await terminal.screen()).toMatch(
      /instance B .* is killed with SIGKILL while its question is open/,
    );
    await terminal.type('Down', 'Down', 'Enter');
    await terminal.shows(/● Accept/);
    await terminal.type('Enter');
    await terminal.shows(/Work item ID of the original bug/);
    await terminal.type('77', 'Enter');
    await terminal.shows(/exit code \d/);
    const screen = await terminal.screen();
    expect(screen).toContain('Bug #4522 resolved as Duplicate of Bug #77.');
    expect(screen).toMatch(/✓ All 4 claims held/);
    expect(screen).toContain('exit code 0');
  });

  it('tells the server where a person takes the question back, and nothing is resolved', async () => {
    const terminal = await onTerminal([process.execPath, VALISE, 'tour', '--story', 'bug']);
    await terminal.shows(/● Accept/);
    await terminal.type('Escape');
    await terminal.shows(/exit code \d/);
    const screen = await terminal.screen();
    expect(screen).toMatch(/✓ without an answer nothing was resolved/);
    expect(screen).toContain('exit code 0');
  });
});

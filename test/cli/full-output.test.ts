import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { VALISE } from './valise.ts';

describe('valise, where there is no room left for what it prints', () => {
  it.skipIf(!existsSync('/dev/full')).each([[['status', '--json', '--store', 'memory:']], [['--help']]])(
    'says so in one line, and fails: %s',
    async (args) => {
      const full = await open('/dev/full', 'w');
      const child = spawn(process.execPath, [VALISE, ...args], { stdio: ['ignore', full.fd, 'pipe'] });
      const [said, [code]] = await Promise.all([
        text(child.stderr as NodeJS.ReadableStream),
        once(child, 'close'),
      ]);
      await full.close();
      expect(said).toMatch(/^valise: The output could not be written \(.*ENOSPC.*\)\.\n$/);
      expect(code).toBe(1);
    },
  );
});

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { root } from '../house/sources.ts';
import type { Block } from './blocks.ts';
import { folderOf } from './stage.ts';

/** How a block ended. */
export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a staged block as a reader would: in a folder of its own, with an empty home, `valise` in the PATH and nothing on
 * stdin. What it leaves running is ended with it.
 */
export function runBlock(block: Block, seconds = 60): Promise<Outcome> {
  const folder = folderOf(block.page);
  const [command, args] = commandOf(block);
  const child = spawn(command, args, {
    cwd: folder,
    env: readersEnvironment(folder),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
  const endAll = () => {
    try {
      if (child.pid) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // All of them have ended by themselves.
    }
  };
  const timer = setTimeout(() => {
    stderr += `\nstill running after ${seconds} s`;
    endAll();
  }, seconds * 1000);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', endAll);
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code, stdout, stderr });
    });
  });
}

function commandOf({ language, file }: Block): [string, string[]] {
  if (language === 'sh') return ['bash', ['-euo', 'pipefail', file]];
  return [process.execPath, [file.replace(/\.ts$/, '.js')]];
}

function readersEnvironment(folder: string): NodeJS.ProcessEnv {
  const home = join(folder, 'home');
  const bin = join(folder, 'bin');
  mkdirSync(home, { recursive: true });
  mkdirSync(bin, { recursive: true });
  if (!existsSync(join(bin, 'valise'))) symlinkSync(`${root}bin/valise.js`, join(bin, 'valise'));
  return { PATH: `${bin}${delimiter}${process.env['PATH']}`, HOME: home, LANG: 'C.UTF-8', NO_COLOR: '1' };
}

// Runs commands in sequence and prints a line for each, so that long work shows its progress.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The root of the repository, with a trailing slash. */
export const root = fileURLToPath(new URL('..', import.meta.url));

const SIGNALS = ['SIGINT', 'SIGTERM'];

/**
 * Prints a progress line to stderr, because stdout is for results.
 * @param {string} line
 */
export function say(line) {
  process.stderr.write(`valise: ${line}\n`);
}

/**
 * Formats the time since `since` for people.
 * @param {number} since a value of `performance.now()`
 */
export function took(since) {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}

/**
 * Runs a command to completion. With `quiet`, its output is returned; otherwise it goes to the terminal.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, quiet?: boolean }} [options]
 * @returns {Promise<{ code: number, output: string }>}
 */
export function run(command, args, { cwd = root, env = process.env, quiet = false } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env,
      stdio: ['ignore', quiet ? 'pipe' : 'inherit', quiet ? 'pipe' : 'inherit'],
    });
    let output = '';
    const keep = (chunk) => {
      output += chunk;
    };
    child.stdout?.setEncoding('utf8').on('data', keep);
    child.stderr?.setEncoding('utf8').on('data', keep);
    const end = () => child.kill('SIGTERM');
    const settle = (result) => {
      for (const signal of SIGNALS) process.off(signal, end);
      resolve(result);
    };
    // A signal to this process also ends the command, so that services started before it are stopped in order.
    for (const signal of SIGNALS) process.on(signal, end);
    child.on('error', (error) => settle({ code: 127, output: `${command}: ${error.message}` }));
    child.on('close', (code) => settle({ code: code ?? 1, output }));
  });
}

/**
 * Runs a command that must succeed. If it fails, prints its output and throws.
 * @param {string} title
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
 */
export async function must(title, command, args, options) {
  const start = performance.now();
  say(`${title} …`);
  const { code, output } = await run(command, args, { ...options, quiet: true });
  if (code !== 0) {
    process.stderr.write(output);
    throw new Error(
      `${title}: \`${[command, ...args].join(' ')}\` ended with code ${code}; what it said is above.`,
    );
  }
  say(`${title}: done in ${took(start)}`);
}

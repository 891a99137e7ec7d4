import { spawn } from 'node:child_process';
import { remark } from './output.ts';

const OPENERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
};

/** Shows a page to the user: in a browser where there is one, and in words in any case. `VALISE_BROWSER` names another. */
export function openBrowser(url: URL): void {
  remark(`Sign in here: ${url.href}`);
  const own = process.env['VALISE_BROWSER'];
  const [command, ...args] = own ? ([own] as const) : (OPENERS[process.platform] ?? ['xdg-open']);
  const child = spawn(command, [...args, url.href], { stdio: 'ignore', detached: true });
  // Without a browser the words are enough.
  child.on('error', () => {});
  child.unref();
}

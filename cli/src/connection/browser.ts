import { spawn } from 'node:child_process';
import { CommandError } from '../errors.ts';
import { remark } from '../output/output.ts';

/**
 * Shows a page to the user: opens a browser if there is one, and always prints the URL. `VALISE_BROWSER` names another
 * program. The server chooses the URL, so it never passes through a shell, and the browser gets no `VALISE_` variables.
 */
export function openBrowser(url: URL, why = 'Sign in here'): void {
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new CommandError('not-a-page', `A ${url.protocol} URL is not opened in a browser.`, {
      next: 'Ask whoever runs the server for an https: address.',
    });
  remark(`${why}: ${url.href}`);
  const [command, ...args] = browserCommand();
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^VALISE_/i.test(name)));
  const child = spawn(command, [...args, url.href], { env, stdio: 'ignore', detached: true });
  // Without a browser, the printed URL is enough.
  child.on('error', () => {});
  child.unref();
}

function browserCommand(): readonly [string, ...string[]] {
  const { VALISE_BROWSER: own, SystemRoot: windows = 'C:\\Windows' } = process.env;
  if (own) return [own];
  if (process.platform === 'darwin') return ['/usr/bin/open'];
  if (process.platform !== 'win32') return ['xdg-open'];
  // rundll32 passes the rest of its command line to ShellExecute. The href of an http(s) URL has no blanks and no quotes, so
  // nothing needs quoting. The full path is necessary because Windows would search the current directory first.
  return [`${windows}\\System32\\rundll32.exe`, 'url.dll,FileProtocolHandler'];
}

import { existsSync } from 'node:fs';
import { fileOf, messageOf, targetKey, targetNamed } from 'mcp-valise/internal';
import { openBrowser } from '../connection/browser.ts';
import { parseTarget } from '../connection/target.ts';
import { SIGNALS } from '../connection/waiting.ts';
import { type ConnectOptions, storeUrl } from '../options/options.ts';
import { print, printJson, remark } from '../output/output.ts';
import { openClientConsole } from './client/console.ts';
import { Feed } from './feed.ts';
import { openServerConsole } from './operator/console.ts';
import { startConsole } from './server.ts';

/** Settings of {@link openConsole}. */
export interface OpenSettings {
  readonly options: ConnectOptions;
  readonly targets: readonly string[];
  readonly write: boolean;
  /** The store of a server, if the page is for its operator. */
  readonly server: string | undefined;
  /** The name of that server, as `createValise` has it. */
  readonly name: string | undefined;
  readonly port: number;
}

/** Serves the console until the command is interrupted. */
export async function openConsole({
  options,
  targets,
  write,
  server,
  name,
  port,
}: OpenSettings): Promise<void> {
  const stop = new Promise<void>((resolve) => {
    for (const signal of SIGNALS) process.once(signal, () => resolve());
  });
  const feed = new Feed();
  const openClient = () => openClientConsole({ options, write, targets: targets.map(keyOf), feed });
  let opened =
    server === undefined ? await openClient() : await openServerConsole({ store: server, write, name, feed });
  // A console that only reads does not create the store, so it waits until somebody else does.
  const stopWaiting =
    server === undefined && !write
      ? whenCreated(fileOf(storeUrl(options.store)), async () => {
          const before = opened;
          opened = await openClient();
          feed.changed('*');
          await before.close();
        })
      : undefined;
  try {
    const running = await startConsole({ routes: () => opened.routes, feed, write, port });
    announce(running.url, options);
    await stop;
    await running.close();
  } finally {
    stopWaiting?.();
    await opened.close();
  }
}

/** How often a console looks whether a store has been created, in milliseconds. */
const LOOK = 1000;

/** Calls back once a file that does not exist yet does. Returns a function that stops waiting. */
function whenCreated(file: string | undefined, created: () => Promise<void>): (() => void) | undefined {
  if (file === undefined || existsSync(file)) return undefined;
  const timer = setInterval(() => {
    if (!existsSync(file)) return;
    clearInterval(timer);
    created().catch((error: unknown) => remark(`valise: ${messageOf(error)}`));
  }, LOOK).unref();
  return () => clearInterval(timer);
}

/** Prints the link, and opens it unless the user wants no browser. */
export function announce(url: string, { json, browser }: Pick<ConnectOptions, 'json' | 'browser'>): void {
  if (json) printJson({ url });
  else if (browser === false) print(`Open this link; it works once, on this machine: ${url}`);
  else openBrowser(new URL(url), 'The console is here; the link works once, on this machine');
}

/** Returns a target as the store names it. */
function keyOf(target: string): string {
  const parsed = parseTarget(target);
  return targetKey(targetNamed(parsed.kind === 'http' ? parsed.url : parsed.command));
}

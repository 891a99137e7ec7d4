import { openValise } from 'mcp-valise/client';
import { openStore } from 'mcp-valise/store';
import { makeClient } from '../connection/sdk.ts';
import { explain } from '../output/exit.ts';
import { signInHeadless } from './headless-sign-in.ts';
import type { Step } from './step.ts';
import { textOf } from './story.ts';
import { type Ends, watchedFetch } from './watched-fetch.ts';

/** The tasks of a client process. */
export interface ClientTask {
  readonly url: string;
  readonly store: string;
  /** A separate store for tokens, and the keys that seal it. */
  readonly secrets: { readonly store: string; readonly keys: string };
  readonly principal: string;
  /** The user who signs in, if the server requires it. */
  readonly user: string;
  readonly ends: Ends;
  /** Tools to call in order, without arguments. */
  readonly tools: readonly string[];
}

/** A message from a client process to the tour. */
export type Told =
  | { readonly type: 'step'; readonly step: Step }
  | { readonly type: 'sign-in' }
  | { readonly type: 'done'; readonly texts: readonly string[] }
  | { readonly type: 'failed'; readonly why: string };

/**
 * Runs a client in its own process, for the story in which it is killed. It receives its tasks from the tour, performs them,
 * and then waits until the tour ends or it is killed.
 */
export async function beClient(): Promise<void> {
  const task = await new Promise<ClientTask>((resolve) =>
    process.once('message', (message) => resolve(message as ClientTask)),
  );
  const tell = (told: Told): void => void process.send?.(told);
  try {
    tell({ type: 'done', texts: await run(task, tell) });
  } catch (error) {
    tell({ type: 'failed', why: explain(error) });
  }
  await new Promise((resolve) => process.once('disconnect', resolve));
}

async function run(task: ClientTask, tell: (told: Told) => void): Promise<string[]> {
  const { store, principal, user, ends, tools } = task;
  const url = new URL(task.url);
  const secrets = await openStore(task.secrets.store, { keys: task.secrets.keys });
  const valise = await openValise({ store, secrets, principal, allowLocal: true });
  // The servers are on this machine on purpose.
  valise.on('warning', () => {});
  const client = await makeClient({ sdk: 'v2', era: 'legacy' });
  await valise.connect(client, url, {
    fetch: watchedFetch(url, ends, (step) => tell({ type: 'step', step })),
    auth: {
      async redirect(page) {
        tell({ type: 'sign-in' });
        await signInHeadless(page, user);
      },
    },
  });
  const texts: string[] = [];
  for (const name of tools) texts.push(textOf(await client.callTool({ name, arguments: {} })));
  return texts;
}

import { openValise } from 'mcp-valise/client';
import { openStore } from 'mcp-valise/store';
import { explain } from '../exit.ts';
import { makeClient } from '../sdk.ts';
import { signInHeadless } from './headless.ts';
import { textOf } from './stage.ts';
import type { Step } from './step.ts';
import { type Ends, watchedFetch } from './watched-fetch.ts';

/** What a client process is to do. */
export interface Errands {
  readonly url: string;
  readonly store: string;
  /** A store for tokens alone, and what it is sealed with. */
  readonly secrets: { readonly store: string; readonly keys: string };
  readonly principal: string;
  /** Who signs in, where that is asked. */
  readonly user: string;
  readonly ends: Ends;
  /** Tools to call, one after another, without arguments. */
  readonly tools: readonly string[];
}

/** What a client process tells the tour. */
export type Told =
  | { readonly type: 'step'; readonly step: Step }
  | { readonly type: 'sign-in' }
  | { readonly type: 'done'; readonly texts: readonly string[] }
  | { readonly type: 'failed'; readonly why: string };

/**
 * A client in a process of its own, for the story in which it is killed. It takes its requestHints from the tour, does them,
 * and then waits: for the end of the tour, or its own.
 */
export async function beClient(): Promise<void> {
  const requestHints = await new Promise<Errands>((resolve) =>
    process.once('message', (message) => resolve(message as Errands)),
  );
  const tell = (told: Told): void => void process.send?.(told);
  try {
    tell({ type: 'done', texts: await run(requestHints, tell) });
  } catch (error) {
    tell({ type: 'failed', why: explain(error) });
  }
  await new Promise((resolve) => process.once('disconnect', resolve));
}

async function run(requestHints: Errands, tell: (told: Told) => void): Promise<string[]> {
  const { store, principal, user, ends, tools } = requestHints;
  const url = new URL(requestHints.url);
  const secrets = await openStore(requestHints.secrets.store, { keys: requestHints.secrets.keys });
  const valise = await openValise({ store, secrets, principal, allowLocal: true });
  // Its servers are on this machine on purpose.
  valise.events.on('warning', () => {});
  const client = await makeClient({ sdk: 'v2', era: 'legacy' });
  const target = valise.http(url, {
    fetch: watchedFetch(url, ends, (step) => tell({ type: 'step', step })),
    auth: {
      async redirect(page) {
        tell({ type: 'sign-in' });
        await signInHeadless(page, user);
      },
    },
  });
  await valise.connect(client, target);
  const texts: string[] = [];
  for (const name of tools) texts.push(textOf(await client.callTool({ name, arguments: {} })));
  return texts;
}

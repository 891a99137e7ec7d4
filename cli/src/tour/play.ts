import { randomBytes } from 'node:crypto';
import { constants } from 'node:os';
import { join } from 'node:path';
import { SIGNALS } from '../connection/waiting.ts';
import { temporaryFolder } from '../examples/temporary-folder.ts';
import { explain } from '../output/exit.ts';
import { bug } from './bug.ts';
import { cart } from './cart.ts';
import { notebook } from './notebook.ts';
import { jsonPresenter, textPresenter } from './presenter.ts';
import { resume } from './resume.ts';
import { type Story, StoryRun } from './story.ts';

/** All stories, in order. */
export const STORIES: readonly Story[] = [cart, bug, notebook, resume];

/** Settings of a tour. */
export interface TourOptions {
  /** Names of stories; all of them if empty. */
  readonly story: readonly string[];
  readonly slow?: boolean;
  readonly json?: boolean;
  readonly store?: string;
  /** Plays the stories in a page instead of on the terminal. */
  readonly console?: boolean;
  readonly browser?: boolean;
}

/** Runs the stories. Returns true if every claim held. */
export async function playTour(options: TourOptions): Promise<boolean> {
  const started = performance.now();
  // The tour's processes and directory are removed on exit.
  const interrupt = (signal: NodeJS.Signals): void => process.exit(128 + constants.signals[signal]);
  for (const signal of SIGNALS) process.once(signal, interrupt);
  const folder = await temporaryFolder('tour');
  const show = (options.json ? jsonPresenter : textPresenter)(options.slow === true);
  const stories = STORIES.filter(({ name }) => options.story.length === 0 || options.story.includes(name));
  let claims = 0;
  let failed = 0;
  try {
    for (const story of stories) {
      const ownStore = (name: string): string => `sqlite:${join(folder.path, `${story.name}-${name}.db`)}`;
      const run = new StoryRun({
        show,
        interactive: !options.json && process.stdin.isTTY === true && process.stdout.isTTY === true,
        ownStore,
        store: (name) => options.store ?? ownStore(name),
        principal: `tour-${randomBytes(6).toString('hex')}`,
      });
      await playStory(story, run);
      await show.shown();
      claims += run.claims.made;
      failed += run.claims.failed;
    }
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupt);
    await folder.remove();
  }
  const seconds = Math.round((performance.now() - started) / 100) / 10;
  const held = failed === 0 && claims > 0;
  show.summary({ held, claims, failed, stories: stories.map(({ name }) => name), seconds });
  await show.shown();
  return held;
}

/** Plays one story, and closes its processes. A story that fails counts as a claim that did not hold. */
export async function playStory(story: Story, run: StoryRun): Promise<void> {
  run.show.story(story.name, story.title, story.about);
  try {
    await story.tell(run);
  } catch (error) {
    run.claim(`the story can be told to its end: ${explain(error)}`, false);
  } finally {
    await run.close();
  }
}

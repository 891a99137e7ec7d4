import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { LeaveOpen, ValiseError } from 'mcp-valise/client';
import { isObject } from 'mcp-valise/internal';
import pkg from '../../package.json' with { type: 'json' };
import type { Elicited } from '../ask/answerer.ts';
import { SIGNALS } from '../connection/waiting.ts';
import { temporaryFolder } from '../examples/temporary-folder.ts';
import { playStory, STORIES } from '../tour/play.ts';
import type { Presenter } from '../tour/presenter.ts';
import { StoryRun } from '../tour/story.ts';
import { formOf, readForm } from './client/form.ts';
import { Feed } from './feed.ts';
import { announce } from './open.ts';
import { members, type Routes, text } from './routes.ts';
import { startConsole } from './server.ts';

/** A question of a story that waits for its answer in the page. */
interface Open {
  readonly params: Readonly<Record<string, unknown>>;
  settle(answer: Elicited): void;
}

/** Settings of {@link tourConsole}. */
export interface TourConsoleOptions {
  readonly json?: boolean;
  readonly browser?: boolean;
  readonly store?: string;
}

/** `valise tour --console`: plays the stories in the page, with buttons to kill and restart their processes. */
export async function tourConsole(options: TourConsoleOptions): Promise<void> {
  const stop = new Promise<void>((resolve) => {
    for (const signal of SIGNALS) process.once(signal, () => resolve());
  });
  const folder = await temporaryFolder('tour');
  const feed = new Feed();
  const player = new StoryPlayer(feed, folder.path, options.store);
  const routes = player.routes();
  try {
    const running = await startConsole({ routes: () => routes, feed, write: true, port: 0 });
    announce(running.url, options);
    await stop;
    await running.close();
  } finally {
    await player.close();
    await folder.remove();
  }
}

/** Plays one story at a time. */
class StoryPlayer {
  readonly #feed: Feed;
  readonly #folder: string;
  readonly #store: string | undefined;
  readonly #played = new Map<string, { readonly made: number; readonly failed: number }>();
  #run: StoryRun | undefined;
  #story: string | undefined;
  #playing: Promise<void> = Promise.resolve();
  #open: Open | undefined;

  constructor(feed: Feed, folder: string, store: string | undefined) {
    this.#feed = feed;
    this.#folder = folder;
    this.#store = store;
  }

  routes(): Routes {
    return {
      'GET meta': {
        run: () => ({ mode: 'tour', write: true, version: pkg.version, store: 'the tour’s own', quota: 0 }),
      },
      'GET timeline': { run: () => ({ moments: this.#feed.moments }) },
      'GET tour': { run: () => this.#shown() },
      'POST tour/play': { writes: true, run: (input) => this.#play(text(input, 'story')) },
      'POST tour/kill': {
        writes: true,
        run: async (input) => {
          const instance = this.#instances().find(({ name }) => name === input['name']);
          if (!instance || !this.#run) throw notThere();
          await this.#run.kill(instance, 'from the page');
          this.#feed.changed('tour');
          return { pid: instance.pid };
        },
      },
      'POST tour/restart': {
        writes: true,
        run: async (input) => {
          const instance = await this.#run?.restart(text(input, 'name'));
          if (!instance) throw notThere();
          this.#feed.changed('tour');
          return { pid: instance.pid };
        },
      },
      'POST tour/answer': { writes: true, run: (input) => this.#answer(input) },
    };
  }

  async close(): Promise<void> {
    this.#open?.settle({ action: 'cancel' });
    await this.#run?.close();
    await this.#playing;
  }

  #instances(): StoryRun['instances'] {
    return this.#run?.instances ?? [];
  }

  #shown(): object {
    return {
      playing: this.#story,
      stories: STORIES.map(({ name, title, about }) => ({
        name,
        title,
        about,
        claims: this.#played.get(name),
      })),
      instances: this.#instances().map(({ name, pid, child }) => ({
        name,
        pid,
        isRunning: child.exitCode === null && child.signalCode === null,
      })),
      question: this.#open && {
        message: String(this.#open.params['message'] ?? ''),
        fields: formOf(this.#open.params['requestedSchema']),
      },
    };
  }

  #play(name: string): object {
    const story = STORIES.find((each) => each.name === name);
    if (!story || this.#story !== undefined)
      throw new ValiseError('invalid-argument', 'Another story is being told.', {
        next: 'Wait for its end.',
      });
    this.#story = name;
    const ownStore = (of: string): string =>
      `sqlite:${join(this.#folder, `${name}-${of}-${randomBytes(4).toString('hex')}.db`)}`;
    const stores = new Map<string, string>();
    const storeOf = (of: string): string => {
      const known = stores.get(of) ?? ownStore(of);
      stores.set(of, known);
      return known;
    };
    const run = new StoryRun({
      show: this.#show(),
      interactive: false,
      ask: (params) => this.#ask(params),
      ownStore: storeOf,
      store: (of) => this.#store ?? storeOf(of),
      principal: `tour-${randomBytes(6).toString('hex')}`,
      changed: () => this.#feed.changed('tour'),
    });
    this.#run = run;
    this.#playing = playStory(story, run).finally(() => {
      this.#played.set(name, run.claims);
      this.#story = undefined;
      this.#feed.changed('tour');
    });
    this.#feed.changed('tour');
    return { playing: name };
  }

  #ask(params: unknown): Promise<Elicited> {
    return new Promise((resolve) => {
      this.#open = {
        params: isObject(params) ? params : {},
        settle: (answer) => {
          this.#open = undefined;
          this.#feed.changed('tour');
          resolve(answer);
        },
      };
      this.#feed.changed('tour');
    });
  }

  #answer(input: Readonly<Record<string, unknown>>): object {
    const open = this.#open;
    if (!open) throw new LeaveOpen();
    if (input['action'] !== 'accept') {
      open.settle({ action: 'decline' });
      return {};
    }
    const filled = readForm(open.params['requestedSchema'], members(input, 'values'));
    if ('problems' in filled) return filled;
    open.settle({ action: 'accept', content: filled.content });
    return {};
  }

  #show(): Presenter {
    return {
      story: (_, title, about) => this.#feed.add({ kind: 'story', title, about }),
      lanes: () => this.#feed.changed('tour'),
      step: ({ message: _, ...step }) => this.#feed.add({ kind: 'message', ...step }),
      event: (what) => this.#feed.add({ kind: 'event', name: 'tour', what }),
      claim: ({ claim, held }) => this.#feed.add({ kind: 'claim', claim, held }),
      summary: () => {},
      shown: async () => {},
    };
  }
}

function notThere(): ValiseError {
  return new ValiseError('not-found', 'This process does not belong to the story that is told.', {
    next: 'Play a story first.',
  });
}

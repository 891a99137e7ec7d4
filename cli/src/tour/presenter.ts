import { setTimeout as pause } from 'node:timers/promises';
import { clean, colour, cut, print, printJson } from '../output/output.ts';
import { tellCarried } from './carried.ts';
import { Lanes } from './lanes.ts';
import type { Step } from './step.ts';

/** A statement of a story, and whether it held. */
export interface Claim {
  readonly held: boolean;
  readonly claim: string;
}

/** The outcome of all stories. */
export interface Summary {
  readonly held: boolean;
  readonly claims: number;
  readonly failed: number;
  readonly stories: readonly string[];
  readonly seconds: number;
}

/** Displays the events of a story in order. */
export interface Presenter {
  story(name: string, title: string, about: string): void;
  lanes(names: readonly string[]): void;
  step(step: Step): void;
  /** Shows something that happened outside the messages. */
  event(what: string): void;
  claim(claim: Claim): void;
  summary(summary: Summary): void;
  /** Resolves when everything so far has been shown. */
  shown(): Promise<void>;
}

/** Pause after each step with `--slow`, in milliseconds. */
const SLOW_MS = 900;

/** Shows items in order, with pauses if `slow` is set. */
class Queue {
  #last: Promise<void> = Promise.resolve();
  readonly #slow: boolean;

  constructor(slow: boolean) {
    this.#slow = slow;
  }

  add(show: () => void, isStep = false): void {
    this.#last = this.#last.then(async () => {
      show();
      if (isStep && this.#slow) await pause(SLOW_MS);
    });
  }

  shown(): Promise<void> {
    return this.#last;
  }
}

/** Prints one JSON object per line: steps, events and claims, then a summary. */
export function jsonPresenter(slow: boolean): Presenter {
  const queue = new Queue(slow);
  let story = '';
  return {
    story(name, title, about) {
      story = name;
      queue.add(() => printJson({ type: 'story', story: name, title, about }));
    },
    lanes() {},
    step(step) {
      const line = { type: 'step', story, ...step };
      queue.add(() => printJson(line), true);
    },
    event(what) {
      const line = { type: 'event', story, what };
      queue.add(() => printJson(line), true);
    },
    claim(claim) {
      const line = { type: 'claim', story, ...claim };
      queue.add(() => printJson(line));
    },
    summary: (summary) => queue.add(() => printJson({ type: 'summary', ...summary })),
    shown: () => queue.shown(),
  };
}

/** Draws lanes for people. */
export function textPresenter(slow: boolean): Presenter {
  const queue = new Queue(slow);
  const columns = process.stdout.columns ?? 100;
  let lanes = new Lanes([], columns);
  let isClaiming = false;
  const say = (line = '', style?: (escaped: string) => string): void =>
    print(line === '' ? '' : `  ${clean(line)}`, style);
  return {
    story(name, title, about) {
      queue.add(() => {
        isClaiming = false;
        print(`\n━━ ${title} (--story ${name})`, colour.bold);
        print(`${wrapped(about, Math.min(columns, 100))}\n`);
      });
    },
    lanes(names) {
      queue.add(() => {
        lanes = new Lanes(names, columns);
        say(lanes.heading(), colour.bold);
      });
    },
    step({ from, to, what, says, carried }) {
      queue.add(() => {
        isClaiming = false;
        say(lanes.arrow(from, to, what));
        if (says) say(lanes.beside(cut(says, columns - 8)), colour.dim);
        for (const one of carried) say(lanes.beside(cut(`◆ ${tellCarried(one)}`, columns - 8)), colour.cyan);
      }, true);
    },
    event: (what) => queue.add(() => say(`! ${what}`, colour.yellow), true),
    claim({ held, claim }) {
      queue.add(() => {
        if (!isClaiming) say();
        isClaiming = true;
        if (held) say(`✓ ${claim}`, (line) => line.replace('✓', colour.green));
        else say(`✗ ${claim} (this did not hold)`, colour.red);
      });
    },
    summary({ held, claims, failed, stories, seconds }) {
      queue.add(() => {
        const told = `${stories.length} ${stories.length === 1 ? 'story' : 'stories'} in ${seconds.toFixed(1)} s`;
        const outcome = held ? `✓ All ${claims} claims held` : `✗ ${failed} of ${claims} claims did not hold`;
        print(`\n${outcome}: ${told}.`, held ? colour.green : colour.red);
      });
    },
    shown: () => queue.shown(),
  };
}

/** Wraps a text into lines of at most `most` characters. */
function wrapped(text: string, most: number): string {
  let line = '';
  let lines = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + word.length + 1 > most) {
      lines += `${line}\n`;
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return lines + line;
}

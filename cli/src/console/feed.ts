import type { Step } from '../tour/step.ts';

/** Something that the timeline shows: a message between two lanes, or an event. */
export type Moment = {
  readonly id: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The process that it happened in, if it was another one. */
  readonly process?: string | undefined;
} & (
  | ({ readonly kind: 'message' } & Omit<Step, 'message'>)
  | {
      readonly kind: 'event';
      readonly name: string;
      readonly lane?: string | undefined;
      readonly what: string;
    }
  | { readonly kind: 'story'; readonly title: string; readonly about: string }
  | { readonly kind: 'claim'; readonly claim: string; readonly held: boolean }
);

type Without<T> = T extends unknown ? Omit<T, 'id' | 'at'> : never;

/** A moment that has not been added yet. */
export type NewMoment = Without<Moment> & { readonly at?: number };

/** What a feed tells its listeners: a new moment, or the parts of the page that may have changed. */
export type News = { readonly moment: Moment } | { readonly changed: readonly string[] };

/** How many moments are remembered. */
const MOST = 2000;

/** The live news of a console: a bounded timeline, and which data has changed. */
export class Feed {
  readonly #moments: Moment[] = [];
  readonly #listeners = new Set<(news: News) => void>();
  #next = 1;

  get moments(): readonly Moment[] {
    return this.#moments;
  }

  add(moment: NewMoment): void {
    const added = { at: Date.now(), ...moment, id: this.#next++ } as Moment;
    this.#moments.push(added);
    if (this.#moments.length > MOST) this.#moments.shift();
    this.#tell({ moment: added });
  }

  /** Says that what these parts of the page show may have changed. */
  changed(...parts: readonly string[]): void {
    this.#tell({ changed: parts });
  }

  /** Adds a listener. Returns a function that removes it. */
  listen(listener: (news: News) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get isWatched(): boolean {
    return this.#listeners.size > 0;
  }

  #tell(news: News): void {
    for (const listener of this.#listeners) listener(news);
  }
}

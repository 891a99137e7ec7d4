import { messageOf, ValiseError } from './errors.ts';

/** A listener of {@link Events}. What it throws, or rejects with, becomes a warning of the process, and ends nothing. */
export type Listener<T> = (event: T) => void;

const faulty = new WeakSet<object>();

/**
 * Tells one listener. Its own mistake breaks neither the call that is told about nor the process: it becomes a warning as
 * Node prints them, for each listener once.
 */
export function tell<T>(listener: Listener<T>, event: T): void {
  try {
    const outcome: unknown = listener(event);
    if (outcome instanceof Promise) outcome.catch((error: unknown) => report(listener, error));
  } catch (error) {
    report(listener, error);
  }
}

function report(listener: object, error: unknown): void {
  if (faulty.has(listener)) return;
  faulty.add(listener);
  process.emitWarning(`A listener has thrown: ${messageOf(error)}`, {
    type: 'ValiseWarning',
    code: 'listener-threw',
    ...(error instanceof Error && error.stack !== undefined && { detail: error.stack }),
  });
}

/** Most warnings that are printed for one event source. */
const MOST_PRINTED = 100;

/** Prints warnings that nobody listens to, as Node prints its own; each text once. */
export function printWarnings(): Listener<{ readonly what: string; readonly next: string }> {
  const printed = new Set<string>();
  return ({ what, next }) => {
    const text = `${what} ${next}`;
    if (printed.size >= MOST_PRINTED || printed.has(text)) return;
    printed.add(text);
    globalThis.process?.emitWarning?.(text, { type: 'ValiseWarning' });
  };
}

/**
 * A small typed event source. Valise tells what it did through events, and logs nothing but warnings that nobody listens to.
 *
 * @example
 * ```ts
 * const events = new Events<{ evicted: { key: string } }>();
 * const off = events.on('evicted', ({ key }) => console.log(key));
 * off();
 * ```
 */
export class Events<Kinds extends object> {
  readonly #listeners = new Map<keyof Kinds, Set<Listener<never>>>();
  readonly #known: object | undefined;
  readonly #unheard: { readonly [Name in keyof Kinds]?: Listener<Kinds[Name]> };

  /** With `known`, whose properties are the names of all events, there are no others. `unheard` is told what nobody listens to. */
  constructor(
    known?: { readonly [Name in keyof Kinds]: unknown },
    unheard: { readonly [Name in keyof Kinds]?: Listener<Kinds[Name]> } = {},
  ) {
    this.#known = known;
    this.#unheard = unheard;
  }

  /** Adds a listener; the function returned takes it off again. */
  on<Name extends keyof Kinds>(name: Name, listener: Listener<Kinds[Name]>): () => void {
    if (this.#known && !Object.hasOwn(this.#known, name)) {
      throw new ValiseError('bad-listener', `There is no event ${JSON.stringify(name)}.`, {
        next: `Listen to one of ${Object.keys(this.#known).join(', ')}.`,
      });
    }
    if (typeof listener !== 'function') {
      throw new ValiseError('bad-listener', `The listener for ${JSON.stringify(name)} is no function.`, {
        next: 'Give the name of an event and a function.',
      });
    }
    let set = this.#listeners.get(name);
    if (!set) this.#listeners.set(name, (set = new Set()));
    set.add(listener as Listener<never>);
    return () => void set.delete(listener as Listener<never>);
  }

  /** Tells all listeners of `name`. A listener that throws does not keep the others from hearing. */
  emit<Name extends keyof Kinds>(name: Name, event: Kinds[Name]): void {
    const set = this.#listeners.get(name);
    if (!set?.size) this.#unheard[name]?.(event);
    for (const listener of set ?? []) tell(listener as Listener<Kinds[Name]>, event);
  }

  /** True where somebody listens, so that an event that is costly to build need not be. */
  has(name: keyof Kinds): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }
}

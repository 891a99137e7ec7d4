import { messageOf, ValiseError } from './errors.ts';

/** A listener of {@link Events}. If it throws or rejects, the error becomes a process warning and stops nothing. */
export type Listener<T> = (event: T) => void;

const faulty = new WeakSet<object>();

/**
 * Calls one listener. An error in the listener breaks neither the reported call nor the process. It becomes a Node
 * process warning, once per listener.
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

/** The maximum number of warnings printed for one event source. */
const MOST_PRINTED = 100;

/** Prints warnings that have no listener as Node process warnings, each text once. */
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
 * A small typed event emitter. Valise reports its actions through events, and logs nothing except warnings without a
 * listener.
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

  /**
   * `known` has one property per event name; if given, other names are rejected. `unheard` receives events without a
   * listener.
   */
  constructor(
    known?: { readonly [Name in keyof Kinds]: unknown },
    unheard: { readonly [Name in keyof Kinds]?: Listener<Kinds[Name]> } = {},
  ) {
    this.#known = known;
    this.#unheard = unheard;
  }

  /** Adds a listener. Returns a function that removes it. */
  on<Name extends keyof Kinds>(name: Name, listener: Listener<Kinds[Name]>): () => void {
    if (this.#known && !Object.hasOwn(this.#known, name)) {
      throw new ValiseError('invalid-argument', `There is no event ${JSON.stringify(name)}.`, {
        next: `Listen to one of ${Object.keys(this.#known).join(', ')}.`,
      });
    }
    if (typeof listener !== 'function') {
      throw new ValiseError('invalid-argument', `The listener for ${JSON.stringify(name)} is no function.`, {
        next: 'Give the name of an event and a function.',
      });
    }
    let set = this.#listeners.get(name);
    if (!set) this.#listeners.set(name, (set = new Set()));
    set.add(listener as Listener<never>);
    return () => void set.delete(listener as Listener<never>);
  }

  /** Calls all listeners of `name`. A listener that throws does not affect the others. */
  emit<Name extends keyof Kinds>(name: Name, event: Kinds[Name]): void {
    const set = this.#listeners.get(name);
    if (!set?.size) this.#unheard[name]?.(event);
    for (const listener of set ?? []) tell(listener as Listener<Kinds[Name]>, event);
  }

  /** Whether the event has a listener. Check it before building an expensive event. */
  has(name: keyof Kinds): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }
}

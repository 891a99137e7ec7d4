/** A record of what an object held at one moment, some levels deep. Below that, objects are compared by identity. */
interface Held {
  readonly value: unknown;
  readonly inside: ReadonlyMap<unknown, Held> | undefined;
}

/** Remembers what an object holds, to detect later changes. A property that is undefined counts as absent. */
export class Contents {
  readonly #object: object;
  readonly #inside: ReadonlyMap<unknown, Held>;
  readonly #ignored: ReadonlySet<unknown>;

  /** Records the contents. `levels` counts from the object itself: with 1, only its own properties are compared. */
  constructor(object: object, levels: number, ignored: readonly string[] = []) {
    this.#object = object;
    this.#ignored = new Set(ignored);
    const inside = insideOf(object, levels);
    for (const name of ignored) inside.delete(name);
    this.#inside = inside;
  }

  /** Returns the value that a property had. */
  get(name: string): unknown {
    return this.#inside.get(name)?.value;
  }

  /** Whether the object still has the same contents. */
  areSame(): boolean {
    return isSameInside(this.#object, this.#inside, this.#ignored);
  }
}

const NOTHING: ReadonlySet<unknown> = new Set();

function insideOf(object: object, levels: number): Map<unknown, Held> {
  const inside = new Map<unknown, Held>();
  const keep = (key: unknown, value: unknown): void => {
    if (value === undefined) return;
    inside.set(key, {
      value,
      inside: levels > 1 && isPlain(value) ? insideOf(value, levels - 1) : undefined,
    });
  };
  if (object instanceof Map) for (const [key, value] of object) keep(key, value);
  else if (object instanceof Set) for (const value of object) keep(value, value);
  else for (const [key, value] of Object.entries(object)) keep(key, value);
  return inside;
}

/** Whether a value is compared by its contents. The SDKs replace empty maps, sets, arrays and plain objects by new ones. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Map || value instanceof Set || Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isSameInside(
  object: object,
  inside: ReadonlyMap<unknown, Held>,
  ignored: ReadonlySet<unknown>,
): boolean {
  let count = inside.size;
  const isHeld = (key: unknown, value: unknown): boolean => {
    if (value === undefined || ignored.has(key)) return true;
    count--;
    const held = inside.get(key);
    return held !== undefined && isSame(value, held);
  };
  if (object instanceof Map) {
    for (const [key, value] of object) if (!isHeld(key, value)) return false;
  } else if (object instanceof Set) {
    for (const value of object) if (!isHeld(value, value)) return false;
  } else {
    // This avoids the arrays that Object.entries creates, since it runs for every request.
    for (const key in object) {
      if (Object.hasOwn(object, key) && !isHeld(key, (object as Record<string, unknown>)[key])) return false;
    }
  }
  return count === 0;
}

function isSame(value: unknown, held: Held): boolean {
  if (!held.inside) return Object.is(value, held.value);
  if (!isPlain(value) || Object.getPrototypeOf(value) !== Object.getPrototypeOf(held.value)) return false;
  return isSameInside(value, held.inside, NOTHING);
}

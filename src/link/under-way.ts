import type { Id } from '../wire/message.ts';

/** Up to so many, looking through all of them costs no more than a map does. */
const FEW = 32;

interface Entry<Value> {
  readonly id: Id;
  readonly value: Value;
}

/**
 * What waits for its response, by the id of its request. There are nearly always few, and they stand in a list. A `Map` that
 * calls go into and out of has V8 make a new table every few of them, each old one pointing to the next: once one of them
 * has become old, all calls that ever stood in a later one stay in memory until the next full collection.
 */
export class UnderWay<Value> {
  #few: Entry<Value>[] = [];
  #many: Map<Id, Value> | undefined;

  get size(): number {
    return this.#many?.size ?? this.#few.length;
  }

  get(id: Id): Value | undefined {
    return this.#many ? this.#many.get(id) : this.#few[this.#at(id)]?.value;
  }

  /** All of them, in no order. */
  values(): Value[] {
    return this.#many ? [...this.#many.values()] : this.#few.map(({ value }) => value);
  }

  /** Puts one in, in place of another of the same id. */
  set(id: Id, value: Value): void {
    const few = this.#few;
    const at = this.#at(id);
    if (this.#many) this.#many.set(id, value);
    else if (at >= 0) few[at] = { id, value };
    // What grows takes room for many more, and on the links that live for one request there are none.
    else if (few.length === 0) this.#few = [{ id, value }];
    else if (few.push({ id, value }) > FEW) {
      this.#many = new Map(few.map((entry) => [entry.id, entry.value]));
      this.#few = [];
    }
  }

  /** Takes one out. */
  take(id: Id): Value | undefined {
    if (this.#many) return this.#takeOfMany(this.#many, id);
    const at = this.#at(id);
    const found = this.#few[at];
    const last = found && this.#few.pop();
    if (last && last !== found) this.#few[at] = last;
    return found?.value;
  }

  clear(): void {
    this.#few = [];
    this.#many = undefined;
  }

  #takeOfMany(many: Map<Id, Value>, id: Id): Value | undefined {
    const found = many.get(id);
    many.delete(id);
    if (many.size === 0) this.#many = undefined;
    return found;
  }

  #at(id: Id): number {
    const few = this.#few;
    for (let at = 0; at < few.length; at++) if (few[at]?.id === id) return at;
    return -1;
  }
}

import type { Json } from '../json.ts';

/** A dictionary without a prototype: a name such as `__proto__` or `constructor` is a name like any other. */
export type Dict<Value = Json> = { [name: string]: Value };

/** An empty {@link Dict}. */
export function dict<Value = Json>(): Dict<Value> {
  return Object.create(null) as Dict<Value>;
}

/** How deep a peer's value may nest. `JSON.stringify` runs out of stack somewhere beyond some thousands. */
export const MAX_DEPTH = 64;

/** True where the value is no more than `levels` deep; also false for a value that contains itself. */
export function isShallow(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) return value.every((item) => isShallow(item, levels - 1));
  for (const name in value) {
    if (!isShallow((value as Record<string, unknown>)[name], levels - 1)) return false;
  }
  return true;
}

/** True for nothing at all and for an object of which JSON would write no entry. */
export function isEmpty(value: { readonly [name: string]: unknown } | undefined): boolean {
  for (const name in value) if (value[name] !== undefined) return false;
  return true;
}

/** Any value that JSON can represent. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** A JSON object. */
export type JsonObject = { readonly [key: string]: Json };

/** Whether the value is an object as `JSON.parse` creates them: neither `null` nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A dictionary without a prototype, so that `__proto__` and `constructor` are ordinary names. */
export type Dict<Value = Json> = { [name: string]: Value };

/** Returns an empty {@link Dict}. */
export function dict<Value = Json>(): Dict<Value> {
  return Object.create(null) as Dict<Value>;
}

/** The maximum nesting depth of a peer's value. `JSON.stringify` overflows the stack at some thousands of levels. */
export const MAX_DEPTH = 64;

/** Whether the value is at most `levels` deep. Returns false for a value that contains itself. */
export function isShallow(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) return value.every((item) => isShallow(item, levels - 1));
  for (const name in value) {
    if (!isShallow((value as Record<string, unknown>)[name], levels - 1)) return false;
  }
  return true;
}

/** Whether the value is undefined or an object that JSON would write without entries. */
export function isEmpty(value: { readonly [name: string]: unknown } | undefined): boolean {
  for (const name in value) if (value[name] !== undefined) return false;
  return true;
}

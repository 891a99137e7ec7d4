import { isObject } from '../json.ts';
import type { Result } from './message.ts';

/** A result without these keys of its `_meta`, and without `_meta` if nothing is left in it. The result itself stays as it is. */
export function withoutMeta(result: Result, keys: readonly string[]): Result {
  const meta = result._meta;
  if (!isObject(meta) || !keys.some((key) => Object.hasOwn(meta, key))) return result;
  const left = Object.fromEntries(Object.entries(meta).filter(([key]) => !keys.includes(key)));
  if (Object.keys(left).length > 0) return { ...result, _meta: left };
  const { _meta: _, ...rest } = result;
  return rest;
}

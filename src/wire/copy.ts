import { isObject } from '../json.ts';
import type { Result } from './message.ts';

/** Returns the result without these `_meta` keys, and without `_meta` if it would be empty. Does not modify the result. */
export function withoutMeta(result: Result, keys: readonly string[]): Result {
  const meta = result._meta;
  if (!isObject(meta) || !keys.some((key) => Object.hasOwn(meta, key))) return result;
  const left = Object.fromEntries(Object.entries(meta).filter(([key]) => !keys.includes(key)));
  if (Object.keys(left).length > 0) return { ...result, _meta: left };
  const { _meta: _, ...rest } = result;
  return rest;
}

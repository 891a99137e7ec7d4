import { isObject } from '../json.ts';
import type { Store } from './types.ts';

/** True for what has the methods of a store, whoever made it. */
export function isStore(value: unknown): value is Store {
  return (
    isObject(value) &&
    ['get', 'put', 'delete', 'list', 'lease'].every((name) => typeof value[name] === 'function')
  );
}

import { isObject } from '../json.ts';
import type { Store } from './types.ts';

/** Whether the value has the methods of a store, regardless of who created it. */
export function isStore(value: unknown): value is Store {
  return (
    isObject(value) &&
    ['get', 'put', 'delete', 'list', 'lease'].every((name) => typeof value[name] === 'function')
  );
}

import type { ValiseErrorCode } from '../../src/core/error-codes.ts';
import { ValiseError } from '../../src/core/errors.ts';
import type { Json } from '../../src/core/json.ts';
import type { Store } from '../../src/store/types.ts';

// A driver as somebody else would write it, with nothing of ours but the types and the error: about fifty lines.

interface Kept {
  text: string;
  version: string;
  end: number;
}

const refuse = (code: ValiseErrorCode): never => {
  throw new ValiseError(code, code);
};

export function ownStore(): Store {
  const kept = new Map<string, Kept>();
  const leases = new Map<string, { fence: number; end: number }>();
  let count = 0;
  let closed = false;

  const check = (key: string) => {
    if (closed) refuse('closed');
    if (typeof key !== 'string' || !/^[^\0\p{Cs}]+$/u.test(key) || Buffer.byteLength(key) > 1024)
      refuse('store-invalid');
  };
  const endOf = (ttl: number | undefined) => {
    if (ttl === undefined) return Number.POSITIVE_INFINITY;
    return typeof ttl === 'number' && ttl > 0 && ttl < 1e11
      ? Date.now() + ttl * 1000
      : refuse('store-invalid');
  };
  const living = <Item extends { end: number }>(map: Map<string, Item>, key: string) => {
    const item = map.get(key);
    return item && item.end > Date.now() ? item : undefined;
  };
  const textOf = (value: Json): string => {
    try {
      return JSON.stringify(value) ?? refuse('store-invalid');
    } catch {
      return refuse('store-invalid');
    }
  };

  return {
    async get(key) {
      check(key);
      const item = living(kept, key);
      if (!item) return undefined;
      const entry = { value: JSON.parse(item.text) as Json, version: item.version };
      return item.end === Number.POSITIVE_INFINITY ? entry : { ...entry, expiresAt: item.end };
    },
    async put(key, value, { ttl, ifVersion, ifAbsent } = {}) {
      check(key);
      const item = { text: textOf(value), version: `v${++count}`, end: endOf(ttl) };
      if (ifAbsent && living(kept, key)) return undefined;
      if (ifVersion !== undefined && living(kept, key)?.version !== ifVersion) return undefined;
      kept.set(key, item);
      return item.version;
    },
    async delete(key, { ifVersion } = {}) {
      check(key);
      const item = living(kept, key);
      return item !== undefined && (ifVersion ?? item.version) === item.version && kept.delete(key);
    },
    async list(prefix, { cursor = '', limit = 1000 } = {}) {
      if (closed) refuse('closed');
      if (!Number.isInteger(limit) || limit < 1) refuse('store-invalid');
      const keys = [...kept.keys()]
        .filter((key) => key.startsWith(prefix) && key > cursor && living(kept, key))
        .sort();
      const page = keys.slice(0, limit);
      return keys.length > limit ? { keys: page, cursor: page.at(-1) as string } : { keys: page };
    },
    async lease(key, ttl) {
      check(key);
      const mine = { fence: ++count, end: endOf(ttl) };
      if (living(leases, key)) return undefined;
      leases.set(key, mine);
      const held = () => living(leases, key) === mine;
      return {
        fence: mine.fence,
        async renew(more) {
          if (closed) refuse('closed');
          if (!held()) return false;
          mine.end = endOf(more);
          return true;
        },
        async release() {
          if (held()) leases.delete(key);
        },
      };
    },
    async close() {
      closed = true;
    },
  };
}

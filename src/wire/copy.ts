import { isObject } from '../json.ts';
import type { Message, Meta, Params, Request, Result } from './message.ts';

// On Node 20, what `{ ...other, added }` makes has a hidden class of its own, another one each time: it costs a microsecond,
// and all who read it, JSON and the SDKs' schemas too, search for each member anew. With the added member first, or with
// nothing added, it has the same one as the others of its kind. So the messages of every call are copied here.

/** The same message. The SDKs make their requests in the dear way. */
export function steady<M extends Message>(message: M): M {
  return { ...message };
}

/** A request with other params. */
export function withParams(request: Request, params: Params): Request {
  const copy = { params, ...request };
  copy.params = params;
  return copy;
}

/** Params or a result, or none yet, with another `_meta`. */
export function withMeta<Holder extends Params | Result>(
  holder: Holder | undefined,
  meta: Meta,
): Holder & { readonly _meta: Meta } {
  const copy = { _meta: meta, ...holder };
  copy._meta = meta;
  return copy as Holder & { readonly _meta: Meta };
}

/** A `_meta` with another value under a name that it has. */
export function withEntry(meta: Meta, name: string, value: unknown): Meta {
  const copy: Record<string, unknown> = { ...meta };
  copy[name] = value;
  return copy;
}

/** A result without these keys of its `_meta`, and without `_meta` if nothing is left in it. The result itself stays as it is. */
export function withoutMeta(result: Result, keys: readonly string[]): Result {
  const meta = result._meta;
  if (!isObject(meta) || !keys.some((key) => Object.hasOwn(meta, key))) return result;
  const left = Object.fromEntries(Object.entries(meta).filter(([key]) => !keys.includes(key)));
  if (Object.keys(left).length > 0) return withMeta(result, left);
  const { _meta: _, ...rest } = result;
  return rest;
}

import { randomBytes } from 'node:crypto';
import { isEmpty, isObject } from '../core/json.ts';
import { lazy } from '../core/lazy.ts';
import type { Message } from '../core/message.ts';
import { exactState, mayHaveExact } from './exact-numbers.ts';
import { skimObject } from './json-scan.ts';

/**
 * The top-level members of family R. Both SDKs reject a message with a top-level name that JSON-RPC does not define.
 * Before the SDK parses a message, such a member is **lowered** into a place that the schemas leave open, and
 * **raised** again when the message is printed.
 */
export const TOP_NAMES = ['state', 'dependent_requests', 'dependent_responses'] as const;

const [STATE, REQUESTS, RESPONSES] = TOP_NAMES;

/** A top-level name of family R. */
export type TopName = (typeof TOP_NAMES)[number];

/** Top-level members as JSON **text**, so that echoed values are echoed verbatim. */
export type Top = { readonly [Name in TopName]?: string } & {
  /** Not a member of the message: jar values whose numbers change when parsed; see {@link exactState}. */
  readonly exact?: string;
};

// The secret is random in each process, so that no peer can forge the key: its value always comes from our own edge.
const secret = lazy(() => randomBytes(9).toString('base64url'));
const carrier = lazy(() => `dev.valise/top-${secret()}`);
const raw = lazy(() => `valise-raw-${secret()}:`);
const quotedRaw = lazy(() => `"${raw()}`);

/** Returns the SDK-safe form of one JSON-RPC message in text, or the same text if there is nothing to lower. */
export function lowerText(text: string): string {
  if (!mayHaveTop(text)) return text;
  const lowered = lowerParsed(text, () => JSON.parse(text) as unknown);
  return lowered === undefined ? text : JSON.stringify(lowered);
}

/** Like {@link lowerText}, for callers that parse by themselves. Returns `parsed` if there is nothing to lower. */
export function parseLowered(text: string, parsed: unknown = JSON.parse(text)): unknown {
  return mayHaveTop(text) ? (lowerParsed(text, () => parsed) ?? parsed) : parsed;
}

/** Returns the SDK-safe form of a message that is already parsed (an HTTP body, or a message in memory). */
export function lowerObject(message: unknown): unknown {
  if (Array.isArray(message)) return message.map(lowerObject);
  if (!isObject(message) || !TOP_NAMES.some((name) => Object.hasOwn(message, name))) return message;
  const top: { [Name in TopName]?: string } = {};
  for (const name of TOP_NAMES) if (Object.hasOwn(message, name)) top[name] = JSON.stringify(message[name]);
  return lower(message, top);
}

/** Whether a message may need lowering. This quick check avoids a second pass over all other messages. */
export function mayHaveTop(text: string): boolean {
  return text.includes('"state"') || text.includes('"dependent_re') || mayHaveExact(text);
}

function lowerParsed(text: string, parse: () => unknown): unknown {
  const spans = skimObject(text);
  if (!spans) return lowerBatch(parse());
  const exact = mayHaveExact(text) ? exactState(text, spans) : undefined;
  const top: { [Name in TopName | 'exact']?: string } = exact === undefined ? {} : { exact };
  let found = exact !== undefined;
  for (const name of TOP_NAMES) {
    const span = spans.get(name);
    if (!span) continue;
    found = true;
    top[name] = text.slice(span.start, span.end);
  }
  return found ? lower(parse() as Record<string, unknown>, top) : undefined;
}

function lowerBatch(parsed: unknown): unknown {
  return Array.isArray(parsed) ? lowerObject(parsed) : undefined;
}

function lower(message: Record<string, unknown>, top: Top): Record<string, unknown> {
  const { state: _s, dependent_requests: _q, dependent_responses: _r, ...rest } = message;
  if ('method' in rest) return { ...rest, params: withMeta(rest['params'], top) };
  if ('error' in rest) {
    const error = isObject(rest['error']) ? rest['error'] : {};
    return { ...rest, error: { ...error, data: { [carrier()]: top, data: error['data'] } } };
  }
  return { ...rest, result: withMeta(rest['result'], top) };
}

function withMeta(holder: unknown, top: Top): Record<string, unknown> {
  const own = isObject(holder) ? holder : {};
  const meta = isObject(own['_meta']) ? own['_meta'] : {};
  return { ...own, _meta: { ...meta, [carrier()]: top } };
}

/** A message, and the top-level members that came with it. */
interface Taken {
  readonly message: Message;
  readonly top?: Top;
}

/** Separates the top-level members of an SDK-safe message from the rest of it. */
export function takeTop(message: Message): Taken {
  const wire = message as unknown as Wire;
  // This is small and has no loop, because it runs for every message.
  const isPlain =
    typeof wire['toJSON'] !== 'function' &&
    !(STATE in wire || REQUESTS in wire || RESPONSES in wire) &&
    carriedIn(wire) === undefined;
  return isPlain ? { message } : takeOut(wire);
}

type Wire = Readonly<Record<string, unknown>>;

/** Returns the members that our edge lowered into a message. */
function carriedIn({ params, result, error }: Wire): Top | undefined {
  const meta = ((params ?? result) as { readonly _meta?: unknown } | undefined)?._meta;
  const place = meta ?? (error as { readonly data?: unknown } | undefined)?.data;
  return (place as { readonly [name: string]: Top | undefined } | null | undefined)?.[carrier()];
}

function takeOut(wire: Wire): Taken {
  // A raised message that never became text: the peer is in this process.
  if (typeof wire['toJSON'] === 'function') return takeTop(lowerObject(wire['toJSON']()) as Message);
  const lowered = lowerObject(wire);
  if (lowered !== wire) return takeTop(lowered as Message);
  const message = wire as unknown as Message;
  const top = carriedIn(wire);
  if (top === undefined) return { message };
  const place = wire['params'] === undefined ? 'result' : 'params';
  const holder = wire[place];
  if (isObject(holder) && isObject(holder['_meta'])) {
    const { [carrier()]: _top, ...others } = holder['_meta'];
    const { _meta: _, ...own } = holder;
    const kept = isEmpty(others) ? own : { ...own, _meta: others };
    if (place === 'params' && isEmpty(kept)) {
      const { params: _none, ...bare } = wire;
      return { message: bare as unknown as Message, top };
    }
    return { message: { ...wire, [place]: kept } as unknown as Message, top };
  }
  const { data, ...own } = wire['error'] as { readonly data: Readonly<Record<string, unknown>> };
  const kept = data['data'] === undefined ? own : { ...own, data: data['data'] };
  return { message: { ...wire, error: kept } as unknown as Message, top };
}

/**
 * Adds top-level members that appear only when the message is printed, so that the strict checks of the transports see
 * a clean message. `without: 'result'` omits the result from the printed form (the draft form of an incomplete result).
 */
export function raise<M extends Message>(
  message: M,
  top: Top,
  { without }: { readonly without?: 'result' } = {},
): M {
  const clean = { ...message };
  Object.defineProperty(clean, 'toJSON', {
    enumerable: false,
    value: () => {
      const printed: Record<string, unknown> = { ...message };
      if (without) delete printed[without];
      for (const name of TOP_NAMES) {
        const text = top[name];
        if (text !== undefined) printed[name] = printable(text);
      }
      return printed;
    },
  });
  return clean;
}

/** Returns the value if printing reproduces the text, otherwise a mark that {@link restoreRaw} replaces with the text. */
function printable(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return JSON.stringify(value) === text ? value : rawMark(text);
}

/** Returns a placeholder for a JSON text, which {@link restoreRaw} replaces. Only for transports with a byte edge. */
export function rawMark(text: string): string {
  return raw() + text;
}

/**
 * Replaces the placeholders in a printed message with the texts that printing would have changed. Outbound byte edges
 * call it.
 */
export function restoreRaw(printed: string): string {
  let out = printed;
  const mark = quotedRaw();
  for (let at = out.indexOf(mark); at >= 0; at = out.indexOf(mark, at)) {
    let end = at + mark.length - 1;
    do end = out.indexOf('"', end) + 1;
    while (isEscaped(out, end - 1));
    const text = (JSON.parse(out.slice(at, end)) as string).slice(raw().length);
    out = out.slice(0, at) + text + out.slice(end);
    at += text.length;
  }
  return out;
}

function isEscaped(text: string, quote: number): boolean {
  let slashes = 0;
  while (text.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++;
  return slashes % 2 === 1;
}

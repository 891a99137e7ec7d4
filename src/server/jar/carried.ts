import type { Json } from '../../core/json.ts';
import { SealError } from '../../seal/index.ts';
import {
  type Attributes,
  carriesState,
  type Dict,
  dict,
  type Meta,
  readState,
  type Scope,
  writeAttributes,
  writeState,
} from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange } from '../exchange.ts';
import { isHttp } from '../peer.ts';
import { principalKey } from '../principal.ts';
import type { Key, Keys } from './keys.ts';
import { type Changes, fromClient, type Report, SAFE_BYTES, type Source, sizeOf } from './scope.ts';

/**
 * Whether the client carries state: it has announced that it does, or this request includes state.
 *
 * The latter is for clients in which a person puts state into a request by hand. An empty dictionary is enough to ask for it.
 */
export function carries({ peer, request }: Exchange): boolean {
  return peer.families.state || carriesState(request.params?._meta);
}

/** Whether a value looks like one of our seals, which nothing else does. */
function isSealed(value: Json): boolean {
  return typeof value === 'string' && /^v1\.[\w-]{8}\.[\w-]{40,}$/.test(value);
}

/** Returns the state that a carrying client sent with its request, by scope. */
export function carriedSources(
  exchange: Exchange,
  { sealer }: ServerContext,
  report: Report,
): Readonly<Record<Scope, Source>> {
  const { problems, ...held } = readState(exchange.request.params?._meta);
  for (const { scope = 'session', name, where, problem } of problems ?? [])
    report(scope, name ?? where, problem);
  const { thread: session } = exchange.carrier;
  const subject = principalKey(exchange.principal);
  const source = (scope: Scope): Source => {
    const values: Dict = held[scope] ?? dict();
    return {
      names: () => Object.keys(values),
      checkWritable: () => undefined,
      read(name, key) {
        const value = values[name];
        if (value === undefined || value === null) return value;
        // A key may have been sealed before it was declared plain.
        if (key.plain && !isSealed(value)) {
          const own = fromClient(name, value);
          if (own === undefined) report(scope, name, 'is larger than can be set');
          return own;
        }
        if (typeof value !== 'string') {
          report(scope, name, 'is not sealed');
          return undefined;
        }
        try {
          return sealer.open(value, { purpose: 'state', subject, bind: bindingOf(scope, name, session) });
        } catch (error) {
          if (!(error instanceof SealError)) throw error;
          report(scope, name, `its seal was refused: ${error.reason}`);
          return undefined;
        }
      },
    };
  };
  return { session: source('session'), server: source('server') };
}

/** Returns the handler's changes for the result to a client that carries state. It includes only what changed. */
export function writeCarried(
  exchange: Exchange,
  { sealer, warnOnce }: ServerContext,
  keys: Keys,
  changes: Readonly<Record<Scope, Changes>>,
): Meta | undefined {
  const { thread: session } = exchange.carrier;
  const subject = principalKey(exchange.principal);
  const overHttp = isHttp(exchange.extra);
  const printed = (scope: Scope, name: string, json: Json, { plain, ttl }: Key): Json =>
    plain
      ? json
      : sealer.seal(json, { purpose: 'state', subject, bind: bindingOf(scope, name, session), ttl });
  const state: { [S in Scope]?: Dict } = {};
  const attributes: { [S in Scope]?: Dict<Attributes> } = {};
  for (const scope of ['session', 'server'] as const) {
    for (const [name, change] of changes[scope]) {
      const values = (state[scope] ??= dict());
      if (!change) {
        values[name] = null;
        continue;
      }
      const key = keys.of(scope, name);
      const value = printed(scope, name, change.json, key);
      values[name] = value;
      (attributes[scope] ??= dict())[name] = overHttp ? key.attributes : withoutServerScope(key.attributes);
      const bytes = sizeOf(name, JSON.stringify(value));
      if (bytes > SAFE_BYTES) {
        warnOnce(`large-state ${scope} ${name}`, {
          what: `State ${JSON.stringify(name.slice(0, 80))} takes ${bytes} bytes; a client need not keep more than ${SAFE_BYTES}.`,
          next: 'Keep what is large in a database of your own, and its id in the state.',
        });
      }
    }
  }
  const { state: spelling } = exchange.spelling;
  const written = writeState(spelling, state);
  return written && { ...written, ...writeAttributes(spelling, attributes) };
}

/** Returns what a seal is bound to. A value of session scope opens in no other session. */
function bindingOf(scope: Scope, name: string, session: string | null): Json {
  return scope === 'session' ? [scope, name, session] : [scope, name];
}

/** Removes the server scope. On stdio there are no domains, and the attribute must not be set. */
function withoutServerScope({ serverScope: _, ...attributes }: Attributes): Attributes {
  return attributes;
}

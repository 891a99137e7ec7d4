import { type Json, mutateJson, mutateText, oddValue, writeJson } from './mutate.ts';
import type { Random } from './random.ts';

/** The names of one era; written out here, since the messages are those of a peer without Valise. */
export const ERAS = {
  legacy: {
    session: 'io.modelcontextprotocol/session',
    create: 'sessions/create',
    others: ['sessions/list', 'sessions/resume', 'sessions/fork', 'sessions/delete', 'sessions/recover'],
    listen: 'messages/listen',
  },
  modern: {
    session: 'dev.valise/session',
    create: 'dev.valise/sessions/create',
    others: [
      'dev.valise/sessions/list',
      'dev.valise/sessions/resume',
      'dev.valise/sessions/fork',
      'dev.valise/sessions/delete',
    ],
    listen: 'dev.valise/listen',
  },
} as const;
export type Era = keyof typeof ERAS;

const CAPABILITIES = {
  state: {},
  elicitation: {},
  experimental: { sessions: {} },
  extensions: {
    'dev.valise/state': {},
    'dev.valise/sessions': {},
    'dev.valise/rounds': { carriers: ['dependent-shared', 'state', 'dependent-each'] },
  },
};
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
  'io.modelcontextprotocol/clientInfo': { name: 'fuzz', version: '1' },
};

/** What a server has given out, for one user in one era; messages are made of it. */
export interface Loot {
  readonly era: Era;
  /** The session in the words of the wire. */
  session?: Json;
  /** The `_meta` of a result, with the state of the jar. */
  state: { readonly [name: string]: Json };
  /** The answer to a question that came as a request of the server's. */
  answer?: { readonly [name: string]: Json };
  /** Where a flow asked: what the call is repeated with, beside its params. */
  round?: {
    readonly params?: { readonly [name: string]: Json };
    readonly top?: { readonly [name: string]: Json };
  };
}

const ARGUMENTS: Json = { a: 1, b: ['x', null] };
const YES: Json = { action: 'accept', content: { name: 'me' } };

type Message = { [name: string]: Json };

/** A request as it should be. */
export function request(
  { era, session, state }: Loot,
  id: number,
  method: string,
  params: { readonly [name: string]: Json } = {},
  inSession = false,
): Message {
  const { state: _none, ...carried } = state as { [name: string]: Json };
  const _meta = {
    ...(era === 'modern' && ENVELOPE),
    ...carried,
    ...(inSession && session !== undefined && { [ERAS[era].session]: session }),
  };
  return { jsonrpc: '2.0', id, method, params: { ...params, _meta } };
}

function initialize(id: number): Message {
  return {
    jsonrpc: '2.0',
    id,
    method: 'initialize',
    params: {
      protocolVersion: '2025-11-25',
      capabilities: CAPABILITIES,
      clientInfo: { name: 'fuzz', version: '1' },
    },
  };
}

function listening(message: Message): Message {
  const params = message['params'] as { readonly _meta: Message };
  const _meta = { ...params._meta, 'dev.valise/listen': { poll: true, wait: 0, resources: ['notes://1'] } };
  return { ...message, params: { ...params, _meta } };
}

/** Calls reach handlers, so most messages are calls. */
function genuine(random: Random, loot: Loot, id: number): Message {
  const { era } = loot;
  const inSession = random.chance(0.5);
  const call = (name: string, within = inSession) =>
    request(loot, id, 'tools/call', { name, arguments: ARGUMENTS }, within);
  switch (random.below(48)) {
    case 0:
      return era === 'modern' ? request(loot, id, 'server/discover') : initialize(id);
    case 1:
      return request(loot, id, 'tools/list', {}, inSession);
    case 2:
      return request(loot, id, ERAS[era].create, { hints: { label: 'x' } });
    case 3:
      return request(loot, id, random.pick(ERAS[era].others), {}, true);
    case 4:
      return listening(request(loot, id, ERAS[era].listen, {}, inSession));
    case 5:
      return call('ask', false);
    case 6:
    case 7: {
      const repeated = call('ask', false);
      const { params, top } = loot.round ?? {};
      return { ...repeated, ...top, params: { ...(repeated['params'] as Message), ...params } };
    }
    case 8:
      return request(loot, id, 'prompts/get', { name: 'greet' }, inSession);
    case 9:
      return request(loot, id, 'resources/read', { uri: 'notes://1' }, inSession);
    case 10:
      return request(
        loot,
        id,
        random.pick(['resources/subscribe', 'resources/unsubscribe']),
        { uri: 'notes://1' },
        inSession,
      );
    case 11:
      return {
        jsonrpc: '2.0',
        method: random.pick([
          'notifications/initialized',
          'notifications/cancelled',
          'notifications/roots/list_changed',
        ]),
        params: { requestId: id },
      };
    case 12:
      if (loot.answer && random.chance(0.5)) return { ...loot.answer };
      return {
        jsonrpc: '2.0',
        id: random.pick([id, `${id}`, 'q.1']),
        result: { action: 'accept', content: {} },
      };
    case 13:
      return call('gated', true);
    default:
      return call('work');
  }
}

/** Places that a handler is reached in spite of: what it is given, and what is carried along. */
const isInside = (path: readonly (string | number)[]) =>
  path[0] === 'params' &&
  path.length > 2 &&
  (path[1] === 'arguments' || path[1] === '_meta') &&
  !String(path[2]).startsWith('io.');

/** A hostile message, as text. */
export function hostile(
  random: Random,
  loot: Loot,
  id: number,
): { readonly text: string; readonly message: Json } {
  const message = genuine(random, loot, id);
  switch (random.pick([...Array(7).fill('inside'), 'anywhere', 'anywhere', 'letters', 'odd'] as const)) {
    case 'inside': {
      const changed = mutateJson(random, message, isInside);
      return { text: JSON.stringify(changed), message: changed };
    }
    case 'anywhere': {
      const changed = mutateJson(random, message);
      return { text: writeJson(random, changed), message: changed };
    }
    case 'letters':
      return { text: mutateText(random, JSON.stringify(message)), message };
    default: {
      const odd = oddValue(random);
      return { text: writeJson(random, random.chance(0.5) ? odd : [message, odd]), message: odd };
    }
  }
}

/** Gets from a server what it gives to a client that behaves. */
export async function plunder(era: Era, ask: (message: Message) => Promise<Message>): Promise<Loot> {
  const loot: Loot = { era, state: {} };
  type Response = { readonly [name: string]: { readonly [name: string]: Json } };
  const answer = async (message: Message) => (await ask(message)) as Response;
  if (era === 'legacy') await answer(initialize(0));
  loot.session = (await answer(request(loot, 1, ERAS[era].create)))['result']?.['session'] as Json;
  const { result } = await answer(request(loot, 2, 'tools/call', { name: 'work', arguments: {} }, true));
  const { [ERAS[era].session]: kept, ...state } = (result?.['_meta'] ?? {}) as Message;
  if (kept) loot.session = { ...(loot.session as object), ...(kept as object) } as Json;
  loot.state = state;
  const asked = await answer(request(loot, 3, 'tools/call', { name: 'ask', arguments: ARGUMENTS }));
  const round = asked['dependent_requests'];
  const { requestState, inputRequests } = asked['result'] ?? {};
  if (round)
    loot.round = {
      top: { dependent_responses: { state: round['state'] ?? null, responses: [{ result: YES }] } },
    };
  if (requestState !== undefined) {
    const inputResponses = Object.fromEntries(
      Object.keys((inputRequests ?? {}) as object).map((key) => [key, YES]),
    );
    loot.round = { params: { requestState, inputResponses } };
  }
  // On stdio the question comes as a request; its id and state are what the answer has.
  if (asked['method'])
    loot.answer = {
      jsonrpc: '2.0',
      id: asked['id'] as Json,
      result: YES,
      ...(asked['state'] !== undefined && { state: asked['state'] as Json }),
    };
  return loot;
}

/** What the engine or a library says if a program did not look first. */
export const SLIP: RegExp =
  /Cannot read prop|is not a function|is not iterable|Unexpected token|Unexpected end of JSON|is not valid JSON|undefined is not|Invalid array length|Maximum call stack|circular structure|Cannot convert|Invalid time value/;

/** Throws if this is not a message of JSON-RPC, or an error that nobody wrote. */
export function checkMessage(message: { readonly [name: string]: Json }): void {
  if (message['jsonrpc'] !== '2.0') throw new Error(`Not JSON-RPC: ${JSON.stringify(message)}`);
  const error = message['error'] as { readonly code?: Json; readonly message?: Json } | undefined;
  if (!error) return;
  if (!Number.isInteger(error.code) || typeof error.message !== 'string')
    throw new Error(`Not an error of JSON-RPC: ${JSON.stringify(message)}`);
  if (SLIP.test(error.message)) throw new Error(`An error that nobody wrote: ${error.message}`);
}

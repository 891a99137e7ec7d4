import { type Json, mutateJson, mutateText, oddValue, writeJson } from './mutate.ts';
import type { Random } from './random.ts';

type Message = { [name: string]: Json };

/** What a server answers one request with. */
export interface HostileAnswer {
  readonly status: number;
  readonly type: string;
  readonly headers: Record<string, string>;
  /** In the place of the id of the request stands {@link ID}. */
  readonly body: string;
}

/** Stands for the id of the request in a body. */
export const ID = '"$id"';

const STATE = { 'cart items': ['x', 1], theme: 'dark', gone: null };
const SEALED = 'v1.uOz5AA2n.EK5lRyoGt6EI-tyoSENJfAAAAAAAAAAAAAAArEvvGLH1swKjkyDvSkDW_8j8Og350dr8-SBVUCfMnxvL';
const SESSION = { sessionId: 'sess-1', state: SEALED, expiresAt: '2030-01-01T00:00:00Z' };
const QUESTION = {
  message: 'Who?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string', default: 'me' } } },
};
const META = {
  'modelcontextprotocol.io/state/session': STATE,
  'modelcontextprotocol.io/state/server': STATE,
  'dev.valise/state': { session: STATE, server: STATE },
  'dev.valise/state-attributes': {
    server: { theme: { 'max-age': 3600, 'server-scope': 'example.net', 'method-scope': 'tools' } },
  },
  'io.modelcontextprotocol/session': SESSION,
  'dev.valise/session': SESSION,
  'dev.valise/seq': 3,
};
const CONTENT = [{ type: 'text', text: 'done' }];
const complete = { resultType: 'complete', content: CONTENT, _meta: META };

/** Genuine answers to a call: last in the list is what ends it, before it what a stream may hold too. */
const GENUINE: readonly (readonly Message[])[] = [
  ...Array<readonly Message[]>(12).fill([{ jsonrpc: '2.0', id: '$id', result: complete }]),
  [
    {
      jsonrpc: '2.0',
      id: '$id',
      error: { code: -32043, message: 'Session not found', data: { sessionId: 'sess-1' } },
    },
  ],
  [
    {
      jsonrpc: '2.0',
      id: '$id',
      error: { code: -31044, message: 'Session required', data: { 'dev.valise/outcome': 'not-done' } },
    },
  ],
  [
    {
      jsonrpc: '2.0',
      id: '$id',
      result: {
        resultType: 'input_required',
        inputRequests: { who: { method: 'elicitation/create', params: QUESTION } },
        requestState: SEALED,
      },
    },
  ],
  [
    {
      jsonrpc: '2.0',
      id: '$id',
      dependent_requests: { state: SEALED, requests: [{ method: 'elicitation/create', params: QUESTION }] },
    },
  ],
  [
    { jsonrpc: '2.0', id: 'q.1', method: 'elicitation/create', state: SEALED, params: QUESTION },
    { jsonrpc: '2.0', id: '$id', result: complete },
  ],
  [
    { jsonrpc: '2.0', id: 7, method: 'ping', state: { a: [1, { b: null }] } },
    { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x', _meta: META } },
    { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri: 'notes://1', _meta: META } },
    { jsonrpc: '2.0', id: '$id', result: complete },
  ],
];

const isInside = (path: readonly (string | number)[]) => path.length > 1;

/** The messages of an answer, as texts. */
export function hostileTexts(random: Random, genuine: readonly Message[] = random.pick(GENUINE)): string[] {
  return genuine.map((message) => {
    switch (random.below(10)) {
      case 0:
        return JSON.stringify(message);
      case 1:
      case 2:
        return writeJson(random, mutateJson(random, message));
      case 3:
        return mutateText(random, JSON.stringify(message));
      case 4:
        return random.chance(0.3) ? writeJson(random, oddValue(random)) : writeJson(random, message);
      default:
        return writeJson(random, mutateJson(random, message, isInside));
    }
  });
}

/** An answer over HTTP. */
export function hostileAnswer(random: Random, genuine?: readonly Message[]): HostileAnswer {
  const texts = hostileTexts(random, genuine);
  const isStream = texts.length > 1 || random.chance(0.4);
  const lines = texts.map((text, at) => {
    const data = text.split('\n').map((line) => `data: ${line}`);
    return [...(random.chance(0.3) ? [`id: ${at}`] : []), 'event: message', ...data, '', ''].join('\n');
  });
  const body = isStream ? lines.join('') : (texts[0] ?? '');
  const usual = isStream ? 'text/event-stream' : 'application/json';
  const status = random.chance(0.95) ? 200 : random.pick([202, 204, 400, 401, 403, 404, 405, 429, 500, 503]);
  return {
    status,
    type: random.chance(0.97) ? usual : random.pick(['', 'text/plain', mutateText(random, usual)]),
    headers: random.chance(0.9)
      ? {}
      : random.pick([
          { 'mcp-session-id': 'other' },
          { 'valise-session-id': '\x7f' },
          {
            'www-authenticate': mutateText(
              random,
              'Bearer resource_metadata="https://evil.example.net/x", scope="a"',
            ),
          },
          { 'retry-after': random.pick(['-1', '99999999', 'x']) },
          { 'mcp-protocol-version': random.pick(['', '1999-01-01', '2026-07-28']) },
        ]),
    body: isStream && random.chance(0.1) ? mutateText(random, body) : body,
  };
}

const SERVER = {
  capabilities: {
    tools: {},
    sessions: {},
    extensions: { 'dev.valise/sessions': {}, 'dev.valise/state': {} },
  },
  serverInfo: { name: 'evil', version: '1' },
  instructions: 'Be nice.',
};

/** The genuine answer to the first request of an era. */
export const OPENED: Record<'legacy' | 'modern', readonly Message[]> = {
  legacy: [{ jsonrpc: '2.0', id: '$id', result: { protocolVersion: '2025-11-25', ...SERVER, _meta: META } }],
  modern: [
    {
      jsonrpc: '2.0',
      id: '$id',
      result: {
        resultType: 'complete',
        supportedVersions: ['2026-07-28'],
        ...SERVER,
        ttlMs: 0,
        cacheScope: 'private',
        _meta: { 'io.modelcontextprotocol/serverInfo': SERVER.serverInfo },
      },
    },
  ],
};

/** The genuine answer to a request that creates a session. */
export const CREATED: readonly Message[] = [
  {
    jsonrpc: '2.0',
    id: '$id',
    result: { resultType: 'complete', session: SESSION, _meta: { 'dev.valise/seq': 1 } },
  },
];
/** The genuine answer to a request for a list. */
export const LISTED: readonly Message[] = [
  {
    jsonrpc: '2.0',
    id: '$id',
    result: {
      resultType: 'complete',
      tools: [{ name: 'work', inputSchema: { type: 'object' }, annotations: { resourceAllocation: true } }],
      sessions: [{ sessionId: 'sess-1', label: 'x' }],
      nextCursor: 'more',
      _meta: META,
    },
  },
];

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/core/json.ts';
import * as wire from '../../src/wire/index.ts';

const { legacy, modern } = wire.NAMES;

/** Every name that a reader looks at, so that arbitrary values land where they are read. */
const NAMES_READ = [
  ...new Set(strings([wire.NAMES, wire.CORE, wire.DRAFTS])),
  ...['_meta', 'params', 'result', 'error', 'method', 'id', 'code', 'message', 'data', 'state', 'session'],
  ...['server', 'sessionId', 'expiresAt', 'expiry', 'requests', 'responses', 'resultType', 'capabilities'],
  ...[
    'experimental',
    'extensions',
    'carriers',
    'hints',
    'label',
    'title',
    'cursor',
    'nextCursor',
    'sessions',
  ],
  ...[
    'notifications',
    'poll',
    'wait',
    'after',
    'resources',
    'missed',
    'max-age',
    'server-scope',
    'method-scope',
  ],
  ...['ref', 'type', 'name', 'uri', 'protocolVersion', 'supportedVersions', 'annotations', 'jsonrpc'],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty'],
];
const VALUES_READ = [
  'input_required',
  'ref/prompt',
  'tools/call',
  'completion/complete',
  '2026-07-28',
  'sess-1',
];

/** Any JSON, biased towards what the readers look for. Built through JSON.parse: `__proto__` is an own key there. */
const hostile: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown; object: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.jsonValue(),
    fc.constantFrom<unknown>(
      ...VALUES_READ,
      legacy.code.sessionNotFound,
      modern.code.sessionRequired,
      -32002,
    ),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc
    .uniqueArray(fc.tuple(fc.constantFrom(...NAMES_READ), tie('value')), {
      maxLength: 6,
      selector: ([name]) => name,
    })
    .map((entries) =>
      JSON.parse(
        `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}`,
      ),
    ),
})).value;

const readers: Record<string, (value: unknown) => unknown> = {
  eraOf: wire.eraOf,
  isRequest: wire.isRequest,
  isNotification: wire.isNotification,
  isResponse: wire.isResponse,
  isModernVersion: wire.isModernVersion,
  isKnownVersion: wire.isKnownVersion,
  isListening: wire.isListening,
  isSessionId: wire.isSessionId,
  isShallow: (value) => wire.isShallow(value),
  readState: wire.readState,
  readAttributes: wire.readAttributes,
  checkMaxAge: wire.checkMaxAge,
  methodPath: (value) => wire.methodPath('completion/complete', value) + wire.methodPath('tools/call', value),
  readSession: wire.readSession,
  readSessionError: (value) => wire.readSessionError(value),
  readCreateParams: wire.readCreateParams,
  readTargetParams: wire.readTargetParams,
  readSessionResult: wire.readSessionResult,
  readListParams: wire.readListParams,
  readListResult: wire.readListResult,
  readListenParams: wire.readListenParams,
  readNotificationTag: wire.readNotificationTag,
  readPollResult: wire.readPollResult,
  readTopState: wire.readTopState,
  readDependentRequests: wire.readDependentRequests,
  readDependentResponses: wire.readDependentResponses,
  readInputRequired: wire.readInputRequired,
  readInputGiven: wire.readInputGiven,
  readAnnounced: wire.readAnnounced,
  readServerMetadata: wire.readServerMetadata,
  allocatesResources: wire.allocatesResources,
};

const era = fc.constantFrom<wire.Era>('legacy', 'modern');
const name = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'toString', '1', '0'));
const json = fc.jsonValue({ depthSize: 'small' }) as fc.Arbitrary<Json>;
const dictionary = fc.array(fc.tuple(name, json), { maxLength: 6 }).map((entries) => {
  const made = wire.dict();
  for (const [key, value] of entries) made[key] = value;
  return made;
});
const sessionId = fc
  .array(fc.integer({ min: 0x21, max: 0x7e }), { minLength: 1, maxLength: 40 })
  .map((codes) => String.fromCharCode(...codes));
const cursor = fc.string({ minLength: 1 });
const session = fc.record(
  {
    sessionId,
    state: fc.string({ unit: 'binary' }),
    expiresAt: fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-12-31') })
      .map((date) => date.toISOString()),
    seq: fc.maxSafeNat(),
  },
  { requiredKeys: ['sessionId'] },
);

describe('readers', () => {
  for (const [reader, read] of Object.entries(readers)) {
    it(`The reader ${reader} never throws, changes its input or touches a prototype`, () => {
      fc.assert(
        fc.property(hostile, (value) => {
          const before = JSON.stringify(value);
          read(value);
          expect(JSON.stringify(value)).toBe(before);
          expect(Object.keys(Object.prototype)).toEqual([]);
        }),
        { numRuns: 300 },
      );
    });
  }
});

describe('round trips of writers and readers', () => {
  it('Written state with any name and any value is read back', () => {
    fc.assert(
      fc.property(era, dictionary, dictionary, (which, ofSession, ofServer) => {
        const read = wire.readState(sent(wire.writeState(which, { session: ofSession, server: ofServer })));
        expect(entries(read.session)).toEqual(entries(sent(ofSession)));
        expect(entries(read.server)).toEqual(entries(sent(ofServer)));
        expect(read.problems).toBeUndefined();
      }),
    );
  });

  it('Written attributes are read back', () => {
    const attributes = fc.record(
      {
        maxAge: fc.integer({ min: 1, max: wire.MAX_AGE }),
        serverScope: fc.domain(),
        methodScope: fc.constantFrom('tools', 'tools/', 'tools/call/view_cart'),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(era, name, attributes, (which, key, given) => {
        const named = wire.dict<wire.Attributes>();
        named[key] = given;
        const read = wire.readAttributes(sent(wire.writeAttributes(which, { server: named })));
        expect(read.problems).toBeUndefined();
        expect(read.server?.[key] ?? {}).toEqual(given);
      }),
    );
  });

  it('A written session in metadata is read back with its sequence', () => {
    fc.assert(
      fc.property(era, session, (which, given) => {
        expect(wire.readSession(sent(wire.writeSession(which, given)))).toEqual(given);
      }),
    );
  });

  it('A written session as the result of create, resume and fork is read back', () => {
    fc.assert(
      fc.property(session, (given) => {
        expect(wire.readSessionResult(sent(wire.sessionResult(given)))).toEqual(given);
      }),
    );
  });

  it('The written session of a request and its label are read back', () => {
    const label = fc.option(fc.string({ minLength: 1, maxLength: wire.MAX_LABEL }), { nil: undefined });
    fc.assert(
      fc.property(era, session, label, (which, given, named) => {
        const read = wire.readTargetParams(sent(wire.targetParams(which, given, { label: named })));
        expect(read).toEqual({ session: given, ...(named === undefined ? {} : { label: named }) });
      }),
    );
  });

  it('A written page of sessions is read back', () => {
    const summary = fc.record(
      { sessionId, label: fc.string({ minLength: 1, maxLength: 20 }) },
      { requiredKeys: ['sessionId'] },
    );
    const page = fc.record(
      { sessions: fc.array(summary), nextCursor: cursor },
      { requiredKeys: ['sessions'] },
    );
    fc.assert(
      fc.property(page, (given) => {
        expect(wire.readListResult(sent(wire.listResult(given)))).toEqual(given);
      }),
    );
  });

  it('A written listener is read back with its position and its poll', () => {
    const request = fc.record(
      {
        session,
        poll: fc.constant(true),
        wait: fc.nat(3600),
        after: cursor,
        resources: fc.array(fc.webUrl(), { maxLength: 3 }),
      },
      { requiredKeys: [] },
    );
    const position = fc.record({ sessionId, cursor, missed: fc.constant(true) }, { requiredKeys: [] });
    fc.assert(
      fc.property(era, request, position, (which, asked, at) => {
        expect(wire.readListenParams(sent(wire.listenParams(which, asked)))).toEqual(asked);
        const first = wire.listening(which, at);
        expect(wire.isListening(first)).toBe(true);
        expect(wire.readNotificationTag(sent(first))).toEqual(at);
        const poll = { ...at, notifications: [first] };
        expect(wire.readPollResult(sent(wire.pollResult(which, poll)))).toEqual(sent(poll));
      }),
    );
  });

  it('The written questions and answers of a round are read back, each state in its place', () => {
    const question = fc.record({ method: fc.string(), state: json }, { requiredKeys: ['method'] });
    const shared = fc.record({ state: json, requests: fc.array(fc.record({ method: fc.string() })) });
    const each = fc.record({ requests: fc.array(question, { maxLength: 5 }) });
    fc.assert(
      fc.property(fc.oneof(shared, each), (round) => {
        const asked = wire.readDependentRequests(sent(wire.dependentRequests(round)));
        expect(asked).toEqual(sent(round));
        const given = wire.dependentResponses(
          round,
          round.requests.map((_, place) => ({ result: { place } })),
        );
        const read = wire.readDependentResponses(sent(given)) as wire.DependentResponses;
        expect(wire.readTopState(read)).toEqual(sent(wire.readTopState(round)));
        expect(read.responses.map(wire.readTopState)).toEqual(
          round.requests.map((request) => sent(wire.readTopState(request))),
        );
      }),
    );
  });

  it('The written input requests and responses of 2026-07-28 are read back', () => {
    const requests = fc.dictionary(name, fc.record({ method: fc.string() }), {
      maxKeys: 4,
      noNullPrototype: true,
    });
    fc.assert(
      fc.property(requests, fc.string({ unit: 'binary' }), (inputRequests, requestState) => {
        const asked = wire.readInputRequired(sent(wire.inputRequired({ inputRequests, requestState })));
        expect(sent(asked)).toEqual(sent({ inputRequests, requestState }));
        const inputResponses = Object.fromEntries(
          Object.keys(inputRequests).map((key) => [key, { action: key }]),
        );
        const params = wire.retryParams({ name: 't' }, { inputResponses, requestState });
        expect(sent(wire.readInputGiven(sent(params)))).toEqual(sent({ inputResponses, requestState }));
      }),
    );
  });

  it('Written announcements are read back from each place alone', () => {
    const families = fc.record({
      state: fc.boolean(),
      sessions: fc.boolean(),
      rounds: fc.shuffledSubarray([...wire.CARRIERS], { minLength: 1 }),
    });
    fc.assert(
      fc.property(families, (given) => {
        for (const announced of [wire.announceClient(given), wire.announceServer(given)]) {
          expect(wire.readAnnounced(sent(announced))).toEqual(given);
          expect(wire.readAnnounced({ extensions: announced['extensions'] })).toEqual(given);
          expect(wire.readAnnounced({ experimental: announced['experimental'] })).toEqual(given);
        }
      }),
    );
  });
});

function strings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(strings) : [];
}

/** As it arrives on the other side. */
function sent<T>(value: T): T {
  return value === undefined ? value : JSON.parse(JSON.stringify(value));
}

/** Own entries by name, whatever the prototype. */
function entries(value: object | undefined): [string, unknown][] {
  return Object.entries(value ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
}

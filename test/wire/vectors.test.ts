import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { agreedVersion, unsupportedVersions } from '../../src/wire/extension-version.ts';
import * as wire from '../../src/wire/index.ts';
import { answerSpelling } from '../../src/wire/spelling.ts';

/** All that a vector may bring; each `do` takes its own part. */
interface Input {
  readonly do: string;
  readonly era: wire.Era;
  readonly meta: unknown;
  readonly results: readonly unknown[];
  readonly state: wire.State;
  readonly attributes: wire.StateAttributes;
  readonly value: unknown;
  readonly scope: string;
  readonly method: string;
  readonly params?: wire.Params;
  readonly families: wire.Families;
  readonly capabilities: unknown;
  readonly request: wire.Request;
  readonly response: wire.ResultResponse & wire.ErrorResponse;
  readonly message: { readonly dependent_requests?: unknown };
  readonly answers: readonly wire.Answer[] & { readonly [key: string]: wire.Result };
  readonly result: wire.Result;
  readonly session: wire.SessionMeta;
  readonly error: unknown;
  readonly sent?: boolean;
  readonly kind: string;
  readonly sessionId: string;
  readonly position: wire.ListenPosition;
  readonly notification: wire.Notification;
  readonly tool: unknown;
  readonly version: string;
  readonly versions: readonly [ours: readonly string[], theirs: readonly string[]];
}

/** One entry of spec/vectors/*.json. */
interface Vector {
  readonly id: string;
  readonly rows: readonly string[];
  readonly title: string;
  readonly input: Input;
  readonly expect: unknown;
}

const folder = new URL('../../spec/vectors/', import.meta.url);

/** What each `do` means, in pure functions. */
const run: Record<string, (input: Input) => unknown> = {
  // Jar
  'read-state': ({ meta }) => wire.readState(meta),
  'write-state': ({ era, state }) => wire.writeState(era, state),
  carry: ({ era, results }) => {
    let held: wire.State = {};
    for (const meta of results) {
      const update = wire.readState(meta);
      held = {
        session: wire.applyState(held.session, update.session),
        server: wire.applyState(held.server, update.server),
      };
    }
    return wire.writeState(era, held);
  },
  'max-age': ({ value }) => wire.checkMaxAge(value)?.problem ?? 'valid',
  'read-attributes': ({ meta }) => wire.readAttributes(meta),
  'write-attributes': ({ era, attributes }) => wire.writeAttributes(era, attributes),
  'method-scope': ({ scope, method, params }) => wire.methodScopeMatches(scope, method, params),
  // Announcements
  'announce-client': ({ families }) => wire.announceClient(families),
  'announce-server': ({ families }) => wire.announceServer(families),
  'agreed-version': ({ versions }) => agreedVersion(...versions) ?? null,
  'unsupported-versions': ({ families }) => unsupportedVersions(families as Record<string, string>),
  'read-announced': ({ capabilities }) => wire.readAnnounced(capabilities),
  // Rounds
  echo: ({ request, response }) => {
    const top = wire.readTopState(request);
    return top ? wire.withTopState(response, top.state) : response;
  },
  dependent: ({ message, answers }) => {
    const asked = wire.readDependentRequests(message);
    if (!asked || wire.isProblem(asked)) return asked;
    expect(wire.dependentRequests(asked).dependent_requests).toEqual(message.dependent_requests);
    const retry = wire.dependentResponses(asked, answers);
    expect(wire.readDependentResponses(retry)).toEqual(retry.dependent_responses);
    return retry;
  },
  'read-dependent-requests': ({ message }) => wire.readDependentRequests(message),
  'read-dependent-responses': ({ message }) => wire.readDependentResponses(message),
  retry: ({ params, result, answers }) => {
    const asked = wire.readInputRequired(result);
    if (!asked || wire.isProblem(asked)) return asked;
    expect(plain(wire.inputRequired(asked))).toEqual(result);
    return wire.retryParams(params, {
      ...(answers && { inputResponses: answers }),
      ...(asked.requestState !== undefined && { requestState: asked.requestState }),
    });
  },
  'read-input-required': ({ result }) => wire.readInputRequired(result),
  'read-input-given': ({ params }) => wire.readInputGiven(params),
  // Sessions
  create: ({ request, response }) => {
    const { method, params } = request;
    const session = wire.readSessionResult(response.result);
    expect(wire.readCreateParams(params)).toEqual({});
    expect({ jsonrpc: '2.0', id: 1, method: wire.NAMES.legacy.method.create }).toEqual(request);
    expect(wire.sessionResult(session as wire.SessionMeta)).toEqual(response.result);
    return { verb: wire.sessionMethod(method)?.verb, session };
  },
  use: ({ request, response }) => {
    const sent = wire.readSession(request.params?._meta);
    const received = wire.readSession(response.result._meta);
    expect(wire.writeSession('legacy', sent as wire.SessionMeta)).toEqual(request.params?._meta);
    expect(wire.writeSession('legacy', received as wire.SessionMeta)).toEqual(response.result._meta);
    return { sent, received };
  },
  missing: ({ request, response }) => {
    const sent = wire.readSession(request.params?._meta) as wire.SessionMeta;
    expect(wire.sessionNotFound('legacy', sent.sessionId)).toEqual(response.error);
    return { sent, error: wire.readSessionError(response.error, { sent: true }) };
  },
  'read-create': ({ params }) => wire.readCreateParams(params),
  'read-session': ({ meta }) => {
    const session = wire.readSession(meta);
    return session === undefined ? 'absent' : session === null ? 'revoked' : session;
  },
  'read-session-result': ({ result }) => wire.readSessionResult(result),
  'write-session': ({ era, session }) => wire.writeSession(era, session),
  'session-id': ({ value }) => wire.isSessionId(value),
  'read-error': ({ error, sent }) => wire.readSessionError(error, { sent: sent ?? true }),
  'write-error': ({ era, kind, sessionId }) =>
    kind === 'required' ? wire.sessionRequired(era) : wire.sessionNotFound(era, sessionId),
  'read-target': ({ params }) => wire.readTargetParams(params),
  'read-list': ({ result }) => wire.readListResult(result),
  'read-listen': ({ params }) => wire.readListenParams(params),
  'read-poll': ({ result }) => wire.readPollResult(result),
  listening: ({ era, position }) => wire.listening(era, position),
  tag: ({ era, notification, position }) => wire.tagNotification(era, notification, position),
  spelling: ({ request, capabilities }) => answerSpelling(request, wire.eraOf(request), capabilities),
  hint: ({ tool }) => wire.allocatesResources(tool),
  // Continuity
  'server-metadata': ({ result }) => wire.readServerMetadata(result),
  era: ({ message }) => wire.eraOf(message),
  version: ({ version }) => ({ known: wire.isKnownVersion(version), modern: wire.isModernVersion(version) }),
};

/**
 * Rows that pure functions settle. The others say what a whole client or server does: here their vectors check the
 * shapes, and a row counts as proved only where a client and a server play it.
 */
const SETTLED_HERE = new Set(['J-04', 'J-19', 'J-21', 'J-23', 'S-16', 'S-27']);

const files = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((file) => ({ file, vectors: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Vector[] }));

for (const { file, vectors } of files) {
  describe(`spec/vectors/${file}`, () => {
    for (const vector of vectors) {
      const rows = vector.rows.map((row) => (SETTLED_HERE.has(row) ? `[${row}]` : row)).join(' ');
      it(`${vector.id} · ${rows} · ${vector.title}`, () => {
        expect(plain(run[vector.input.do]!(vector.input))).toEqual(vector.expect);
      });
    }
  });
}

describe('all vectors', () => {
  const all = files.flatMap(({ vectors }) => vectors);

  it('The vectors have unique ids', () => {
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
  });

  it('The vectors name rows of the ledger', () => {
    const ledger = readFileSync(new URL('../../spec/requirements.md', import.meta.url), 'utf8');
    for (const row of all.flatMap(({ rows }) => rows)) expect(ledger).toContain(`| ${row} |`);
  });

  it('The vectors cover every kind of operation', () => {
    expect(new Set(all.map(({ input }) => input.do))).toEqual(new Set(Object.keys(run)));
  });
});

/** As JSON would carry it; nothing is `null`. */
function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

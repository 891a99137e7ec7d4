import { describe, expect, it } from 'vitest';
import {
  isProblem,
  isSessionId,
  isShallow,
  MAX_DEPTH,
  MAX_NAMES,
  MAX_QUESTIONS,
  MAX_SESSION_ID,
  mergeCapabilities,
  methodPath,
  NAMES,
  readAttributes,
  readDependentRequests,
  readInputRequired,
  readListenParams,
  readListResult,
  readState,
} from '../../src/wire/index.ts';

const KEY = NAMES.legacy.state.session;

describe('hostile state', () => {
  it('A name such as __proto__ is an ordinary name and changes no prototype', () => {
    const { session } = readState(
      JSON.parse(`{"${KEY}":{"__proto__":{"admin":true},"constructor":1,"a":2}}`),
    );
    expect(Object.keys(session!)).toEqual(['__proto__', 'constructor', 'a']);
    expect(Object.getPrototypeOf(session)).toBeNull();
    expect(Object.values(session!)[0]).toEqual({ admin: true });
    expect(session!['admin']).toBeUndefined();
    expect(session!['toString']).toBeUndefined();
  });

  it('State with too many names is not read at all', () => {
    const many = Object.fromEntries(
      Array.from({ length: MAX_NAMES + 1 }, (_, index) => [`n${index}`, index]),
    );
    expect(readState({ [KEY]: many, [NAMES.legacy.state.server]: { a: 1 } })).toEqual({
      server: { a: 1 },
      problems: [{ problem: 'too-many', where: KEY, scope: 'session' }],
    });
  });

  it('Nesting beyond what JSON.stringify can write is refused without a stack overflow', () => {
    const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    expect(isShallow(deep)).toBe(false);
    expect(readState({ [KEY]: { deep } }).problems).toEqual([
      { problem: 'too-deep', where: KEY, scope: 'session', name: 'deep' },
    ]);
  });

  it('Nesting up to the limit passes', () => {
    const at = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);
    expect(isShallow(at(MAX_DEPTH))).toBe(true);
    expect(isShallow(at(MAX_DEPTH + 1))).toBe(false);
  });

  it('A value that contains itself, as an in-memory transport could pass it, is refused', () => {
    const loop: Record<string, unknown> = {};
    loop['loop'] = loop;
    expect(readState({ [KEY]: { loop } }).session).toBeUndefined();
  });

  it('Attributes of names such as __proto__ stay attributes of that name', () => {
    const { session } = readAttributes(
      JSON.parse(`{"${NAMES.legacy.state.attributes}":{"session":{"__proto__":{"max-age":5}}}}`),
    );
    expect(Object.entries(session!)).toEqual([['__proto__', { maxAge: 5 }]]);
  });
});

describe('hostile sizes', () => {
  it('[S-16] A session id that is too long for a header is ignored', () => {
    expect(isSessionId('a'.repeat(MAX_SESSION_ID))).toBe(true);
    expect(isSessionId('a'.repeat(MAX_SESSION_ID + 1))).toBe(false);
  });

  it('Rounds, pages and filters beyond their limits are problems', () => {
    const requests = Array.from({ length: MAX_QUESTIONS + 1 }, () => ({ method: 'ping' }));
    expect(isProblem(readDependentRequests({ dependent_requests: { requests } }))).toBe(true);
    expect(
      isProblem(readInputRequired({ resultType: 'input_required', inputRequests: { ...requests } })),
    ).toBe(true);
    expect(isProblem(readListResult({ sessions: Array.from({ length: 10_001 }) }))).toBe(true);
    expect(
      isProblem(
        readListenParams({ _meta: { [NAMES.legacy.listen]: { resources: Array(1001).fill('file:///a') } } }),
      ),
    ).toBe(true);
  });
});

describe('hostile types', () => {
  it.each([
    { poll: 'x' },
    { poll: 1 },
    { poll: null },
    { wait: '20' },
    { wait: -1 },
    { after: 41 },
    { resources: 'file:///a' },
    { resources: [1] },
  ])('An invalid listen request is a problem and is never ignored: %o', (asked) => {
    const [name] = Object.keys(asked);
    expect(readListenParams({ _meta: { [NAMES.legacy.listen]: asked } })).toEqual({
      problem: 'bad-value',
      where: `${NAMES.legacy.listen}.${name}`,
    });
  });

  it('A listener may say that it does not poll', () => {
    expect(readListenParams({ _meta: { [NAMES.legacy.listen]: { poll: false } } })).toEqual({});
  });
});

describe('hostile names', () => {
  it('A method named like a member of every object is a method without a target', () => {
    expect(methodPath('constructor', { name: 'x' })).toBe('constructor');
    expect(methodPath('__proto__', { name: 'x' })).toBe('__proto__');
  });

  it('A question with the key "problem" is a question', () => {
    const round = readInputRequired({
      resultType: 'input_required',
      inputRequests: { problem: { method: 'elicitation/create' } },
    });
    expect(isProblem(round)).toBe(false);
    expect(round).toEqual({ inputRequests: { problem: { method: 'elicitation/create' } } });
  });

  it('Capabilities of the author stay unchanged', () => {
    const own = {
      extensions: { 'dev.valise/rounds': { carriers: ['state'] }, 'com.example/x': {} },
      tools: {},
    };
    const fragment = {
      extensions: { 'dev.valise/rounds': { carriers: [] }, 'dev.valise/state': {} },
      state: {},
    };
    expect(mergeCapabilities(own, fragment)).toEqual({
      extensions: {
        'dev.valise/rounds': { carriers: ['state'] },
        'com.example/x': {},
        'dev.valise/state': {},
      },
      tools: {},
      state: {},
    });
    expect(own.extensions).not.toHaveProperty('dev.valise/state');
    expect(mergeCapabilities(undefined, fragment)).toEqual(fragment);
  });
});

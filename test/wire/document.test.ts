import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { tables, withTables } from '../../scripts/wire-doc.mjs';
import * as wire from '../../src/wire/index.ts';

const text = readFileSync(new URL('../../spec/wire.md', import.meta.url), 'utf8');
const examples = [...text.matchAll(/```json\n([\s\S]*?)```/g)].map(
  ([, source]) => JSON.parse(source!) as unknown,
);

describe('spec/wire.md', () => {
  it('spec/wire.md has the tables of the source', () => {
    expect(withTables(text, tables(wire))).toBe(text);
  });

  it('The check of spec/wire.md fails if a name in the source changes', () => {
    const { legacy, modern } = wire.NAMES;
    const changed = { ...wire, NAMES: { legacy, modern: { ...modern, session: 'dev.valise/other' } } };
    expect(withTables(text, tables(changed as unknown as typeof wire))).not.toBe(text);
  });

  it('The examples in spec/wire.md use only prefixed names, methods and codes that the source knows', () => {
    const known = new Set(strings([wire.NAMES, wire.CORE]));
    for (const key of examples.flatMap(keys).filter((name) => /^[a-z.]+\.[a-z]+\//.test(name))) {
      expect(known).toContain(key);
    }
    const stock = ['tools/list', 'tools/call', 'elicitation/create', 'notifications/resources/updated'];
    for (const method of examples.flatMap((example) => values(example, 'method'))) {
      expect([...known, ...stock]).toContain(method);
    }
    const codes = Object.values(wire.NAMES).flatMap(({ code }) => Object.values<unknown>(code));
    for (const code of examples.flatMap((example) => values(example, 'code'))) expect(codes).toContain(code);
  });

  it('The readers accept the examples in spec/wire.md without a problem', () => {
    const metas = examples.flatMap((example) => values(example, '_meta'));
    expect(metas.length).toBeGreaterThan(5);
    for (const meta of [...metas, ...examples]) {
      expect(wire.readState(meta).problems).toBeUndefined();
      expect(wire.readAttributes(meta).problems).toBeUndefined();
      expect(wire.isProblem(wire.readSession(meta))).toBe(false);
    }
    for (const example of examples) {
      expect(wire.isProblem(wire.readDependentRequests(example))).toBe(false);
      expect(wire.isProblem(wire.readDependentResponses(example))).toBe(false);
      expect(wire.isProblem(wire.readInputRequired(example))).toBe(false);
    }
  });

  it('The announcements in spec/wire.md match the source', () => {
    const all = { state: true, sessions: true, rounds: wire.CARRIERS };
    expect(examples).toContainEqual(wire.announceClient(all));
    expect(examples).toContainEqual(wire.announceServer({ state: true, sessions: true }));
  });
});

function strings(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [value];
  return Object.values(value).flatMap(strings);
}

function keys(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return [...Object.keys(value), ...Object.values(value).flatMap(keys)];
}

function values(value: unknown, key: string): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  const inner = Object.values(value).flatMap((one) => values(one, key));
  return key in value ? [(value as Record<string, unknown>)[key], ...inner] : inner;
}

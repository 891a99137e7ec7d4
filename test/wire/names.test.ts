import { describe, expect, it } from 'vitest';
import { DRAFTS, NAMES } from '../../src/wire/index.ts';

const { legacy, modern } = NAMES;

/** `_meta` key of 2026-07-28: dotted labels, one slash, a name. */
const META_KEY =
  /^[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\/[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?$/;

describe('the name table', () => {
  it('The name table has the names of the drafts for 2025 peers', () => {
    expect(legacy.state.session).toBe('modelcontextprotocol.io/state/session');
    expect(legacy.state.server).toBe('modelcontextprotocol.io/state/server');
    expect(legacy.session).toBe('io.modelcontextprotocol/session');
    expect(Object.values(legacy.method)).toEqual([
      'sessions/create',
      'sessions/delete',
      'sessions/list',
      'sessions/resume',
      'sessions/recover',
      'sessions/fork',
      'messages/listen',
    ]);
    expect(legacy.notification.listening).toBe('notifications/messages/listen');
    expect(legacy.code).toEqual({
      sessionNotFound: -32043,
      sessionRequired: -32044,
      sessionConflict: -31045,
    });
    expect(legacy.header.session).toBe('Mcp-Session-Id');
    expect(legacy.capability).toEqual({ state: 'state', sessions: 'sessions' });
  });

  it('The name table has Valise names for 2026-07-28 peers', () => {
    expect(modern.state.key).toBe('dev.valise/state');
    expect(modern.session).toBe('dev.valise/session');
    expect(Object.values(modern.method)).toEqual([
      'dev.valise/sessions/create',
      'dev.valise/sessions/delete',
      'dev.valise/sessions/list',
      'dev.valise/sessions/resume',
      'dev.valise/sessions/recover',
      'dev.valise/sessions/fork',
      'dev.valise/listen',
    ]);
    expect(modern.code).toEqual({
      sessionNotFound: -31043,
      sessionRequired: -31044,
      sessionConflict: -31045,
    });
    expect(modern.header.session).toBe('Valise-Session-Id');
    expect(modern.extension).toEqual({
      state: 'dev.valise/state',
      sessions: 'dev.valise/sessions',
      rounds: 'dev.valise/rounds',
      idempotency: 'dev.valise/idempotency',
    });
    expect(modern.idempotency).toEqual({
      key: 'dev.valise/idempotencyKey',
      repeat: 'dev.valise/repeat',
      tool: 'dev.valise/idempotent',
    });
    expect(legacy.idempotency).toEqual(modern.idempotency);
  });

  it('The name table follows the grammar of 2026-07-28 for names that are written to such a peer', () => {
    const { state, session, seq, listen, introduction, extension } = modern;
    for (const key of [
      state.key,
      state.attributes,
      session,
      seq,
      listen,
      introduction,
      ...Object.values(extension),
    ]) {
      expect(key).toMatch(META_KEY);
      expect(key.split('.')[1]).not.toMatch(/^(?:mcp|modelcontextprotocol)[./]/);
    }
  });

  it('The name table uses no codes that 2026-07-28 reserves', () => {
    for (const code of Object.values(modern.code)) expect(code < -32768 || code > -32000).toBe(true);
  });

  it('The name table adds no names under a prefix of others, in either era', () => {
    for (const { state, seq, listen, introduction, extension } of [legacy, modern]) {
      for (const key of [state.attributes, seq, listen, introduction, ...Object.values(extension)]) {
        expect(key).toMatch(/^dev\.valise\//);
      }
    }
  });

  it('The name table has the same announcements, sequence, attributes and listener position in both eras', () => {
    expect(legacy.extension).toEqual(modern.extension);
    expect(legacy.capability).toEqual(modern.capability);
    expect(legacy.seq).toBe(modern.seq);
    expect(legacy.listen).toBe(modern.listen);
    expect(legacy.introduction).toBe(modern.introduction);
    expect(legacy.state.attributes).toBe(modern.state.attributes);
    expect(legacy.annotation).toEqual(modern.annotation);
  });

  it('The name table writes no names that only older drafts used', () => {
    const written = JSON.stringify(NAMES);
    for (const name of [DRAFTS.session, ...Object.values(DRAFTS.method), ...Object.values(DRAFTS.state)]) {
      expect(written).not.toContain(JSON.stringify(name));
    }
  });
});

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { deflateRawSync } from 'node:zlib';
import { createSealer, generateKey, parseKeys } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { bodyOf, clock, refusal } from './helpers.ts';
import { digestOf, kidOf, makeToken, openToken } from './second.ts';

const text = generateKey();
const key = Uint8Array.from(Buffer.from(text, 'base64url'));
const time = clock();
const now = time.now() / 1000;
const sealer = createSealer({ keys: text, audience: 'work-items', ttl: 600, now: time.now });
const value = { text: 'é\ud800\u2028', list: [1, null, { __proto__: null, a: true }] };

/** A token of the other implementation, with these claims over the usual ones. */
const foreign = (plaintext: string | Uint8Array, nonce: Uint8Array = randomBytes(12)) =>
  makeToken({ key, salt: randomBytes(16), nonce, plaintext });
const claims = (over: Record<number, unknown> = {}) =>
  Object.assign([now, now + 600, 'round', 'work-items', 0, 0, 0, value], over);

describe('a second implementation of the token', () => {
  it('finds the same kid', async () => {
    expect(parseKeys(text).kids).toEqual([await kidOf(key)]);
  });

  it('opens our tokens', async () => {
    expect(await openToken(key, sealer.seal(value, { purpose: 'round' }))).toEqual(claims());
  });

  it('opens our tokens with subject and binding', async () => {
    const token = sealer.seal(value, { purpose: 'round', subject: 'alice', bind: { b: 1, a: ['x'] } });
    const subject = await digestOf('subject', token, '"alice"');
    const binding = await digestOf('binding', token, '{"a":["x"],"b":1}');
    expect(await openToken(key, token)).toEqual(claims({ 4: subject, 5: binding }));
  });

  it('opens our compressed tokens', async () => {
    const packing = createSealer({ keys: text, audience: 'work-items', now: time.now, compressAbove: 100 });
    const long = 'la'.repeat(5000);
    const token = packing.seal(long, { purpose: 'round' });
    expect(token.length).toBeLessThan(300);
    expect(await openToken(key, token)).toEqual(claims({ 7: long }));
  });

  it('makes tokens that we open', async () => {
    const token = await foreign(JSON.stringify(claims()));
    expect(sealer.open(token, { purpose: 'round' })).toEqual(value);
    // Once more, now that the derived key is known.
    expect(sealer.open(token, { purpose: 'round' })).toEqual(value);
  });

  it('makes tokens with subject and binding that we open', async () => {
    const salt = randomBytes(16);
    const nonce = randomBytes(12);
    const draft = await makeToken({ key, salt, nonce, plaintext: '' });
    const subject = await digestOf('subject', draft, '"alice"');
    const binding = await digestOf('binding', draft, '[1,{"x":null,"y":"é"}]');
    const token = await makeToken({
      key,
      salt,
      nonce,
      plaintext: JSON.stringify(claims({ 4: subject, 5: binding })),
    });
    const options = { purpose: 'round', subject: 'alice', bind: [1, { y: 'é', x: null }] };
    expect(sealer.open(token, options)).toEqual(value);
    expect(refusal(() => sealer.open(token, { ...options, subject: 'bob' }))).toBe('wrong-subject');
    expect(refusal(() => sealer.open(token, { ...options, bind: [1] }))).toBe('wrong-binding');
  });

  it('makes compressed tokens that we open', async () => {
    const packed = deflateRawSync(JSON.stringify(claims()));
    expect(sealer.open(await foreign(Uint8Array.from([1, ...packed])), { purpose: 'round' })).toEqual(value);
  });

  it('and the documentation agree on the example', async () => {
    const page = readFileSync(new URL('../../docs/seals.md', import.meta.url), 'utf8');
    const vector = JSON.parse(/```json vector\.json[^\n]*\n(.*?)```/s.exec(page)?.[1] ?? '');
    const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex, 'hex'));
    const example = Uint8Array.from(Buffer.from(vector.key, 'base64url'));
    const { plaintext } = vector;
    const made = await makeToken({
      key: example,
      salt: bytes(vector.salt),
      nonce: bytes(vector.nonce),
      plaintext,
    });
    expect(made).toBe(vector.token);
    const ours = createSealer({
      keys: vector.key,
      allowWeakKeys: true,
      audience: 'work-items',
      now: () => 1785585700_000,
    });
    expect(ours.open(vector.token, { purpose: 'round', subject: vector.subject, bind: vector.bind })).toEqual(
      { step: 2 },
    );
  });
});

describe('a genuine token with odd contents', () => {
  it.each([
    ['not JSON', 'hello'],
    ['nothing', ''],
    ['no array', '{"length":8}'],
    ['too few claims', JSON.stringify(claims().slice(0, 7))],
    ['too many claims', JSON.stringify([...claims(), 1])],
    ['a fraction of a second', JSON.stringify(claims({ 0: now + 0.5 }))],
    ['no end', '[1,1e999,"round","work-items",0,0,0,1]'],
    ['text for a time', JSON.stringify(claims({ 1: `${now}` }))],
    ['a number for a purpose', JSON.stringify(claims({ 2: 1 }))],
    ['a list for an audience', JSON.stringify(claims({ 3: ['work-items'] }))],
    ['null for a subject', JSON.stringify(claims({ 4: null }))],
    ['true for a binding', JSON.stringify(claims({ 5: true }))],
    ['an unknown kind', JSON.stringify(claims({ 6: 3 }))],
    ['no deflate after the mark', Uint8Array.from([1, 255, 255, 255])],
    ['an unknown mark', Uint8Array.from([2, ...Buffer.from(JSON.stringify(claims()))])],
  ])('is malformed: %s', async (_, plaintext) => {
    const token = await foreign(plaintext);
    expect(refusal(() => sealer.open(token, { purpose: 'round' }))).toBe('malformed');
    expect(refusal(() => sealer.describe(token))).toBe('malformed');
  });

  it('is malformed, and costs no more memory than allowed, where it grows over maxBytes', async () => {
    const bomb = deflateRawSync(Buffer.alloc(64 * 1024 * 1024, 0x20), { level: 9 });
    const token = await foreign(Uint8Array.from([1, ...bomb]));
    expect(token.length).toBeLessThan(100_000);
    const before = process.memoryUsage().arrayBuffers;
    expect(refusal(() => sealer.open(token, { purpose: 'round' }))).toBe('malformed');
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1024 * 1024);
  });

  it('is tampered where only the salt is another one', async () => {
    const body = bodyOf(await foreign(JSON.stringify(claims())));
    randomBytes(16).copy(body);
    const token = `v1.${sealer.kid}.${body.toString('base64url')}`;
    expect(refusal(() => sealer.open(token, { purpose: 'round' }))).toBe('tampered');
  });
});

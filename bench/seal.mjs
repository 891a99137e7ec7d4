// Seals and opens a JSON value, compared with the bare cipher and with popular libraries. Libraries on WebCrypto send each
// token through other threads, so they are measured by the time their caller waits; the CPU ratio is shown beside it.
import { deepEqual } from 'node:assert/strict';
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes, randomFillSync } from 'node:crypto';
import Iron from '@hapi/iron';
import { createRequestStateCodec } from '@modelcontextprotocol/server';
import { createSigner, createVerifier } from 'fast-jwt';
import { sealData, unsealData } from 'iron-session';
import { EncryptJWT, jwtDecrypt } from 'jose';
import { createSealer, generateKey, parseKeys } from '../dist/seal/index.js';
import { openBench } from './measure.mjs';

const key = randomBytes(32);
const password = key.toString('hex');

/** Returns a value that resembles the journal of a flow: short keys, mixed values, plain text. */
function sampleOf(bytes) {
  const value = { flow: 'update_work_item', round: 2, answers: [] };
  for (let index = 0; JSON.stringify(value).length < bytes; index++) {
    value.answers.push({
      key: `ask-${index}`,
      action: 'accept',
      text: 'duplicate of 4711',
      at: 1760000000 + index,
    });
  }
  return value;
}

/** The minimum work: JSON, AES-256-GCM with a nonce from a pool, base64url. */
function bareCipher() {
  const secret = createSecretKey(key);
  const pool = Buffer.alloc(12 * 512);
  let at = pool.length;
  return {
    seal(value) {
      if (at === pool.length) {
        randomFillSync(pool);
        at = 0;
      }
      const nonce = pool.subarray(at, (at += 12));
      const cipher = createCipheriv('aes-256-gcm', secret, nonce);
      const ciphertext = cipher.update(JSON.stringify(value), 'utf8');
      cipher.final();
      return Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]).toString('base64url');
    },
    open(token) {
      const bytes = Buffer.from(token, 'base64url');
      const decipher = createDecipheriv('aes-256-gcm', secret, bytes.subarray(0, 12));
      decipher.setAuthTag(bytes.subarray(-16));
      const plaintext = decipher.update(bytes.subarray(12, -16));
      decipher.final();
      return JSON.parse(plaintext.toString('utf8'));
    },
  };
}

const sign = createSigner({ key: password, aud: 'work-items', expiresIn: 600_000 });
const verify = createVerifier({ key: password, allowedAud: 'work-items' });
const codec = createRequestStateCodec({ key, ttlSeconds: 600 });
const context = { method: 'tools/call', principal: 'alice' };
const boundCodec = createRequestStateCodec({
  key,
  ttlSeconds: 600,
  bind: (at) => `${at.method}\0${at.principal}`,
});

const bare = { name: 'node:crypto AES-256-GCM, bare', ...bareCipher(), goals: [1 / 1.5, 1 / 1.15, 1 / 1.15] };
const peers = [
  bare,
  {
    name: 'fast-jwt HS256 (signs only)',
    seal: (value) => sign({ value }),
    open: (token) => verify(token).value,
  },
  {
    name: 'SDK v2 codec (signs only)',
    seal: (value) => codec.mint(value),
    open: (token) => codec.verify(token),
    clock: 'wall',
    goals: [5],
  },
  {
    name: 'jose JWE dir A256GCM',
    seal: (value) =>
      new EncryptJWT({ value })
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .setAudience('work-items')
        .setIssuedAt()
        .setExpirationTime('10m')
        .encrypt(key),
    open: async (token) => (await jwtDecrypt(token, key, { audience: 'work-items' })).payload.value,
    clock: 'wall',
  },
  {
    name: 'iron-session 8',
    seal: (value) => sealData(value, { password, ttl: 600 }),
    open: (token) => unsealData(token, { password, ttl: 600 }),
    clock: 'wall',
    goals: [30],
  },
  {
    name: '@hapi/iron 7',
    seal: (value) => Iron.seal(value, password, { ...Iron.defaults, ttl: 600_000 }),
    open: (token) => Iron.unseal(token, password, Iron.defaults),
    clock: 'wall',
  },
];

const sealer = createSealer({ keys: parseKeys(generateKey()), audience: 'work-items', ttl: 600 });
const round = { purpose: 'round' };
const bound = {
  purpose: 'round',
  subject: 'alice',
  bind: { method: 'tools/call', name: 'update_work_item' },
};

const bench = openBench('seal');
for (const [index, bytes] of [200, 2048, 16_384].entries()) {
  const value = sampleOf(bytes);
  const size = bytes < 1024 ? `${bytes} B` : `${bytes / 1024} KB`;
  const sealing = {};
  const opening = {};
  for (const { name, seal, open, clock, goals } of peers) {
    const token = await seal(value);
    deepEqual(await open(token), value);
    sealing[name] = { run: () => seal(value), clock, goal: goals?.[index] };
    opening[name] = { run: () => open(token), clock, goal: goals?.[index] };
  }
  const token = sealer.seal(value, round);
  const boundToken = sealer.seal(value, bound);
  deepEqual(sealer.open(token, round), value);
  await bench.compare(`seal ${size}`, { ours: () => sealer.seal(value, round), peers: sealing });
  await bench.compare(`open ${size}`, { ours: () => sealer.open(token, round), peers: opening });

  const minted = await boundCodec.mint(value, context);
  deepEqual(await boundCodec.verify(minted, context), value);
  const like = { clock: 'wall', goal: index === 0 ? 5 : undefined };
  await bench.compare(`seal ${size}, subject and binding`, {
    ours: () => sealer.seal(value, bound),
    peers: {
      [bare.name]: sealing[bare.name].run,
      'SDK v2 codec with bind': { run: () => boundCodec.mint(value, context), ...like },
    },
  });
  await bench.compare(`open ${size}, subject and binding`, {
    ours: () => sealer.open(boundToken, bound),
    peers: {
      [bare.name]: opening[bare.name].run,
      'SDK v2 codec with bind': { run: () => boundCodec.verify(minted, context), ...like },
    },
  });
  bench.note(
    `  JSON ${JSON.stringify(value).length} B, our token ${token.length}, bare ${bare.seal(value).length}`,
  );
}
bench.close();

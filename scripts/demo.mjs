#!/usr/bin/env node
// What there is to see before the tour: seals and stores, live. Ends with 0 only if every claim held.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Runs a piece of code in a process of its own, as another instance would; returns what it printed. */
function elsewhere(code, env) {
  return execFileSync(process.execPath, ['--input-type=module', '--eval', code], {
    cwd: new URL('..', import.meta.url),
    env: { ...process.env, ...env },
    encoding: 'utf8',
  }).trim();
}

let held = true;
function claim(text, isTrue) {
  held &&= isTrue;
  console.log(`${isTrue ? '✓' : '✗'} ${text}`);
}

const folder = mkdtempSync(join(tmpdir(), 'valise-demo-'));
try {
  console.log('The tour is not here yet; this is what there is.\n');
  const { createSealer, generateKey, parseKeys } = await import('mcp-valise/seal');
  const keys = generateKey();
  const cart = { items: ['cucumber', 'tomato'], price: 100 };
  const token = createSealer({ keys: parseKeys(keys), audience: 'shop' }).seal(cart, { purpose: 'demo' });
  console.log(`sealed  ${JSON.stringify(cart)}\n     →  ${token.slice(0, 40)}… (${token.length} characters)`);
  const opener = `import { createSealer, parseKeys } from 'mcp-valise/seal';
    const sealer = createSealer({ keys: parseKeys(process.env.VALISE_KEYS), audience: 'shop' });
    try { console.log(JSON.stringify(sealer.open(process.env.TOKEN, { purpose: 'demo' }))); }
    catch (error) { console.log(error.code); }`;
  const opened = elsewhere(opener, { VALISE_KEYS: keys, TOKEN: token });
  claim('another process with the same keys opens it', opened === JSON.stringify(cart));
  const middle = token.length >> 1;
  const altered = token.slice(0, middle) + (token[middle] === 'A' ? 'B' : 'A') + token.slice(middle + 1);
  const refused = elsewhere(opener, { VALISE_KEYS: keys, TOKEN: altered });
  claim(`altered by one character it does not open: ${refused}`, refused === 'tampered');

  const { openStore } = await import('mcp-valise/store');
  const url = `sqlite:${join(folder, 'state.db')}`;
  const writer = `import { openStore } from 'mcp-valise/store';
    const store = await openStore(process.env.STORE);
    await store.put('cart', { items: ['cucumber'] });
    process.kill(process.pid, 'SIGKILL');`;
  try {
    elsewhere(writer, { STORE: url });
  } catch (error) {
    console.log(`\na process wrote to ${url} and was killed (${error.signal})`);
  }
  const store = await openStore(url);
  const found = await store.get('cart');
  claim('what it wrote is there', JSON.stringify(found?.value) === '{"items":["cucumber"]}');
  await store.put('cart', { items: [] });
  const late = await store.put('cart', { items: ['late'] }, { ifVersion: found?.version });
  claim('a write on top of an older version is refused', late === undefined);
  await store.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = held ? 0 : 1;

import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { fileOf, keychainProblem, plainEntries, redactUrls } from 'mcp-valise/internal';
import type { Keyring } from 'mcp-valise/seal';
import { openStore, type Store } from 'mcp-valise/store';
import { isInstalled, SDK_PACKAGES } from '../connection/sdk.ts';
import { type KeyOptions, type KeyVariable, keysIfAny } from '../options/key-source.ts';
import { explain } from '../output/exit.ts';
import { shellWord } from '../output/output.ts';
import { type Finding, fail, ok, warn, whatAndFix } from './finding.ts';
import { redisRisks } from './redis.ts';

/** Checks the version of Node. */
export function checkNode(): Finding {
  const [major = 0] = process.versions.node.split('.').map(Number);
  if (major < 20)
    return fail('node', `Node ${process.versions.node} is too old.`, 'Install Node 20 or later.');
  return ok('node', `Node ${process.versions.node}.`);
}

/** Checks for the official SDK, an optional peer in two majors, which every connection needs. */
export function checkSdk(): Finding {
  const { v1, v2 } = SDK_PACKAGES.client;
  const found = [v2, v1].filter(isInstalled);
  if (found.length > 0) return ok('sdk', `${found.join(' and ')} can be used.`);
  const what = 'No client of the official SDK is installed: nothing can be called or connected to.';
  const fix = `npm install ${v2}, for both eras of the protocol; or npm install ${v1}, for the older one.`;
  return isInstalled(SDK_PACKAGES.server.v2) ? warn('sdk', what, fix) : fail('sdk', what, fix);
}

/** Checks the keys of servers that are started here, and the keys that seal this client's store. */
export function checkKeys(options: KeyOptions): Finding[] {
  return [
    keysFinding('keys', {}, 'VALISE_KEYS', () =>
      warn(
        'keys',
        'VALISE_KEYS is not set: a server that is started here seals with a key that ends with its process.',
        'For servers: export VALISE_KEYS=$(valise keys generate), the same on every instance.',
      ),
    ),
    keysFinding('client keys', options, 'VALISE_CLIENT_KEYS', () =>
      ok(
        'client keys',
        'VALISE_CLIENT_KEYS is not set: sign-ins are sealed with a key of this machine, and nothing else is.',
      ),
    ),
  ];
}

function keysFinding(
  check: string,
  options: KeyOptions,
  variable: KeyVariable,
  otherwise: () => Finding,
): Finding {
  try {
    const keys = keysIfAny(options, variable);
    if (!keys) return otherwise();
    const [first, ...others] = keys.kids;
    const rest = others.length > 0 ? `, and ${others.length} more can open` : '';
    return ok(check, `The key ${first} seals${rest}.`);
  } catch (error) {
    return fail(check, ...whatAndFix(error, 'Make a new key: valise keys generate'));
  }
}

/** Checks that the store can be opened, written, read and listed, and leaves it unchanged. */
export async function checkStore(url: string, options: KeyOptions): Promise<Finding> {
  const shown = redactUrls(url);
  const key = `doctor/${randomBytes(8).toString('hex')}`;
  let keys: Keyring | undefined;
  try {
    keys = keysIfAny(options, 'VALISE_CLIENT_KEYS');
  } catch {
    return warn('store', `${shown} was not checked, because its keys are missing.`, 'Fix the keys first.');
  }
  try {
    const store = await openStore(url, { keys });
    try {
      const version = await store.put(key, 1, { ttl: 60, ifAbsent: true });
      const found = await store.get(key);
      const swapped =
        version !== undefined && (await store.put(key, 2, { ifVersion: version })) !== undefined;
      const lease = await store.lease(key, 10);
      await lease?.release();
      await store.delete(key);
      if (found?.value !== 1 || !swapped || !lease) {
        return fail(
          'store',
          `${shown} does not keep what is written.`,
          'Run the contract test of mcp-valise/testing against the driver.',
        );
      }
      const plain = keys ? await namesOfPlain(store) : [];
      if (plain.length > 0) {
        return fail(
          'store',
          `${shown} is sealed, but holds what was written without keys, and is not read: ${someOf(plain)}.`,
          `End what uses the store without keys; then restore this from a copy, or drop it: valise keys seal --drop-plain --store ${shellWord(shown)}`,
        );
      }
    } finally {
      await store.close();
    }
    const works = `${shown} can be written, read, compared and leased`;
    const risks = await redisRisks(url);
    if (risks.length === 0) return ok('store', `${works}.`);
    const whats = risks.map(({ what }) => what).join('; it ');
    return warn('store', `${works}, but it ${whats}.`, risks.map(({ fix }) => fix).join(' '));
  } catch (error) {
    return fail('store', ...whatAndFix(error, 'Choose another one with --store.'));
  }
}

async function namesOfPlain(store: Store): Promise<string[]> {
  const names: string[] = [];
  for await (const { key } of plainEntries(store)) names.push(JSON.stringify(key));
  return names;
}

function someOf(names: readonly string[]): string {
  const more = names.length - 5;
  return [...names.slice(0, 5), ...(more > 0 ? [`and ${more} more`] : [])].join(', ');
}

/** Checks whether other users can read the store's file. */
export function checkPermissions(url: string): Finding[] {
  if (process.platform === 'win32') return [];
  try {
    const path = fileOf(url);
    if (path === undefined) return [];
    const mode = statSync(path).mode & 0o777;
    if ((mode & 0o077) === 0) return [ok('permissions', `Only its owner can read ${path}.`)];
    return [fail('permissions', `${path} can be read by others (${mode.toString(8)}).`, `chmod 600 ${path}`)];
  } catch {
    return [];
  }
}

const KEYRING = '@napi-rs/keyring';

/** Checks the system keychain, which holds the key that seals tokens if it is available. */
export async function checkKeychain(): Promise<Finding> {
  if (!isInstalled(KEYRING))
    return warn(
      'keychain',
      `The package ${KEYRING} is not installed: the key that seals tokens is in a file that only you can read.`,
      `To keep it in the system's keychain: npm install ${KEYRING}`,
    );
  const problem = await keychainProblem('valise-doctor');
  if (!problem) return ok('keychain', "The system's keychain can be used for the key that seals tokens.");
  return warn(
    'keychain',
    explain(problem),
    'Without it the key that seals tokens is in a file that only you can read.',
  );
}

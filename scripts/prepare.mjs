// Makes a checkout ready to run: installs what package-lock.json asks for and builds dist and cli/dist, each only where needed.
// Plain Node, no dependency: on a fresh clone this is what runs first.
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { must, root, say } from './steps.mjs';

const INPUTS = [
  'package.json',
  'tsconfig.json',
  'tsdown.config.ts',
  'src',
  'examples',
  'cli/package.json',
  'cli/src',
];
const STAMP = 'dist/.inputs';

/**
 * Installs the dependencies unless node_modules holds exactly what package-lock.json names. `npm install`, which keeps to
 * the lock file too, rather than `npm ci`: that one refuses a lock file without the optional packages of other systems.
 */
export async function install() {
  const difference = notInstalled();
  if (difference === undefined) return;
  say(`${difference}: installing, which may take two minutes where better-sqlite3 has to be compiled`);
  const args = ['install', '--no-save', '--include=dev', '--no-audit', '--no-fund'];
  await must('npm install', 'npm', args, { env: { ...process.env, ...headers() } });
}

/** Where Node's headers are beside it, native packages are compiled against those, with no download. */
function headers() {
  const prefix = dirname(dirname(realpathSync(process.execPath)));
  return existsSync(`${prefix}/include/node/node.h`) ? { npm_config_nodedir: prefix } : {};
}

/**
 * Builds dist unless it was built from exactly these sources. By one process at a time, beside it and then moved in file
 * by file, so that whoever runs from dist meanwhile finds every file, old or new.
 */
export async function build() {
  if (isBuilt()) return;
  mkdirSync(`${root}.cache`, { recursive: true });
  await alone(`${root}.cache/build.lock`, async () => {
    if (isBuilt()) return;
    const digest = inputsDigest();
    const fresh = `.dist-${process.pid}`;
    try {
      const env = { ...process.env, VALISE_DIST: fresh };
      await must('build', process.execPath, ['node_modules/tsdown/dist/run.mjs'], { env });
      rmSync(`${root}${STAMP}`, { force: true });
      moveIn(fresh, 'dist');
      moveIn(`cli/${fresh}`, 'cli/dist');
      writeFileSync(`${root}${STAMP}`, digest);
    } finally {
      for (const draft of [fresh, `cli/${fresh}`]) rmSync(root + draft, { recursive: true, force: true });
    }
  });
}

/** Makes folder `to` the same as `from`; what is only in `to` goes last. */
function moveIn(from, to) {
  const names = filesUnder(from).map((file) => file.slice(from.length + 1));
  for (const name of names) {
    mkdirSync(dirname(`${root}${to}/${name}`), { recursive: true });
    renameSync(`${root}${from}/${name}`, `${root}${to}/${name}`);
  }
  const wanted = new Set(names.map((name) => `${to}/${name}`));
  for (const file of filesUnder(to)) if (!wanted.has(file)) rmSync(root + file);
}

/** Whether dist and cli/dist were built from the sources as they are now. */
export function isBuilt() {
  return (
    existsSync(`${root}cli/dist/main.js`) &&
    existsSync(root + STAMP) &&
    readFileSync(root + STAMP, 'utf8') === inputsDigest()
  );
}

/** What npm wrote into node_modules, against what the lock file asks for; optional packages may be left out by npm. */
function notInstalled() {
  const installed = packagesOf('node_modules/.package-lock.json');
  if (!installed) return 'nothing is installed';
  for (const [path, wanted] of Object.entries(packagesOf('package-lock.json') ?? {})) {
    if (path === '' || wanted.optional) continue;
    if (!installed[path]) return `${path} is missing`;
    if (installed[path].version !== wanted.version) return `${path} is not at ${wanted.version}`;
  }
  return undefined;
}

/** @returns {Record<string, { version?: string, optional?: boolean }> | undefined} */
function packagesOf(lock) {
  return existsSync(root + lock) ? JSON.parse(readFileSync(root + lock, 'utf8')).packages : undefined;
}

/** A digest of all that dist is made from. Contents, not dates: git and editors move dates about. */
function inputsDigest() {
  const hash = createHash('sha256');
  for (const input of INPUTS.flatMap(filesUnder).sort()) {
    const content = readFileSync(root + input);
    hash.update(`${input}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}

function filesUnder(path) {
  if (!existsSync(root + path)) return [];
  if (statSync(root + path).isFile()) return [path];
  return readdirSync(root + path).flatMap((name) => filesUnder(`${path}/${name}`));
}

/** Runs `work` while no other process of this checkout does; a lock whose owner has died does not count. */
async function alone(lock, work) {
  while (!take(lock)) await sleep(100);
  try {
    await work();
  } finally {
    rmSync(lock, { force: true });
  }
}

/** A symbolic link is made together with what it says, so a lock always names its owner. */
function take(lock) {
  try {
    symlinkSync(String(process.pid), lock);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    if (!ownerLives(lock)) rmSync(lock, { force: true });
    return false;
  }
}

function ownerLives(lock) {
  try {
    return process.kill(Number(readlinkSync(lock)), 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}

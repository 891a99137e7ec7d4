// Prepares a checkout: installs the packages in package-lock.json and builds dist and cli/dist, each only if necessary. It
// is plain Node without dependencies, because on a fresh clone it runs first.
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
  'console',
];
const STAMP = 'dist/.inputs';

/**
 * Installs the dependencies unless node_modules contains exactly what package-lock.json names. Uses `npm install`, which
 * respects the lock file too, because `npm ci` rejects a lock file without the optional packages of other systems.
 */
export async function install() {
  const difference = notInstalled();
  if (difference === undefined) return;
  say(`${difference}: installing, which may take two minutes where better-sqlite3 has to be compiled`);
  const args = ['install', '--no-save', '--include=dev', '--no-audit', '--no-fund'];
  await must('npm install', 'npm', args, { env: { ...process.env, ...headers() } });
}

/**
 * Installs the packages of a folder that has its own lock file, such as `site`, if they are not installed yet. No package
 * there needs its install script.
 */
export async function installFolder(folder) {
  const wanted = readFileSync(`${root}${folder}/package-lock.json`, 'utf8');
  const stamp = `${root}${folder}/node_modules/.installed`;
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline'];
  await must(`${folder}: npm install`, 'npm', args, { cwd: `${root}${folder}` });
  writeFileSync(stamp, wanted);
}

/** Compiles native packages against Node's headers if they are installed beside it, without a download. */
function headers() {
  const prefix = dirname(dirname(realpathSync(process.execPath)));
  return existsSync(`${prefix}/include/node/node.h`) ? { npm_config_nodedir: prefix } : {};
}

/**
 * Builds dist unless it was built from exactly these sources. One process builds at a time, into a separate directory, and
 * then moves the files in one by one, so that processes that run from dist meanwhile find every file, old or new.
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

/** Makes folder `to` the same as `from`; files that exist only in `to` are removed last. */
function moveIn(from, to) {
  const names = filesUnder(from).map((file) => file.slice(from.length + 1));
  for (const name of names) {
    mkdirSync(dirname(`${root}${to}/${name}`), { recursive: true });
    renameSync(`${root}${from}/${name}`, `${root}${to}/${name}`);
  }
  const wanted = new Set(names.map((name) => `${to}/${name}`));
  for (const file of filesUnder(to)) if (!wanted.has(file)) rmSync(root + file);
}

/** Whether dist and cli/dist were built from the current sources. */
export function isBuilt() {
  return (
    existsSync(`${root}cli/dist/main.js`) &&
    existsSync(root + STAMP) &&
    readFileSync(root + STAMP, 'utf8') === inputsDigest()
  );
}

/** Compares the installed packages with the lock file; npm may leave out optional packages. */
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

/** Returns a digest of all inputs of dist. It uses contents, not dates, because git and editors change dates. */
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

/** Runs `work` while no other process of this checkout does; a lock whose owner has died is ignored. */
async function alone(lock, work) {
  while (!take(lock)) await sleep(100);
  try {
    await work();
  } finally {
    rmSync(lock, { force: true });
  }
}

/** Takes the lock. A symbolic link is created together with its target, so a lock always names its owner. */
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

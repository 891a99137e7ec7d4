import { spawnSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

const POLICY = '/usr/sbin/policy-rc.d';
const NO_CLUSTER = '/etc/postgresql-common/createcluster.conf';

/** Finds an executable in PATH, in the usual directories of servers, or in Debian's directory for PostgreSQL. */
function find(binary) {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
    '/usr/sbin',
    '/usr/local/sbin',
    '/opt/homebrew/bin',
  ];
  return folders.map((folder) => join(folder, binary)).find(isExecutable);
}

/** Returns the path of `binary`. If it is missing, installs the Debian package `packageName` if that is allowed. */
export function need(binary, packageName) {
  const found = find(binary);
  if (found) return found;
  const command = `apt-get install -y --no-install-recommends ${packageName}`;
  if (process.getuid?.() !== 0 || !find('apt-get')) {
    throw new Error(
      `${binary} is missing. Install it (on Debian or Ubuntu, as root: ${command}), or set VALISE_NO_SERVICES=1 to run without it.`,
    );
  }
  console.error(`${binary} is missing: ${command}`);
  const result = install(packageName);
  const path = find(binary);
  if (!path) throw new Error(`${command} did not bring ${binary}.\n${result}`);
  return path;
}

/**
 * Installs a package. Debian starts a server as soon as it is installed; this prevents that. If the release does not have the
 * package, its backports are searched too.
 */
function install(packageName) {
  const made = [];
  const place = (path, text, mode) => {
    if (existsSync(path)) return;
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, text, { mode });
    made.push(path);
  };
  place(POLICY, '#!/bin/sh\nexit 101\n', 0o755);
  if (packageName.startsWith('postgresql')) place(NO_CLUSTER, 'create_main_cluster = false\n', 0o644);
  try {
    const first = aptGet(packageName);
    if (first.status === 0) return first.output;
    aptGet();
    const second = aptGet(packageName);
    return second.status === 0 ? second.output : fromBackports(packageName);
  } finally {
    if (made.includes(POLICY)) rmSync(POLICY);
  }
}

/** Installs a package from Debian's backports, without adding them to the sources of this machine. */
function fromBackports(packageName) {
  const [, codename] = /^VERSION_CODENAME=(\w+)/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? [];
  const format = ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', `Codename: ${codename}`];
  const [mirror] = spawnSync('apt-get', format, { encoding: 'utf8' }).stdout.split('\n');
  if (!mirror) return `This release has no package ${packageName}, and no mirror with backports was found.`;
  const folder = mkdtempSync(join(tmpdir(), 'valise-backports-'));
  const list = join(folder, 'sources.list');
  const usual = existsSync('/etc/apt/sources.list') ? readFileSync('/etc/apt/sources.list', 'utf8') : '';
  writeFileSync(list, `${usual}\ndeb ${mirror} ${codename}-backports main\n`);
  const sources = ['-o', `Dir::Etc::SourceList=${list}`, '-o', 'APT::Get::List-Cleanup=0'];
  try {
    const updated = aptGet(undefined, sources);
    return updated.status === 0
      ? aptGet(packageName, [...sources, '-t', `${codename}-backports`]).output
      : updated.output;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function aptGet(packageName, options = []) {
  const args = packageName
    ? ['install', '-y', '--no-install-recommends', '-o', 'Dpkg::Options::=--force-confold', packageName]
    : ['update'];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const { status, stdout, stderr } = spawnSync(
    'apt-get',
    ['-o', 'DPkg::Lock::Timeout=120', ...options, ...args],
    { env, encoding: 'utf8' },
  );
  return { status, output: `${stdout}\n${stderr}`.split('\n').slice(-20).join('\n') };
}

/**
 * Returns the user that servers run as if this process is root, because PostgreSQL refuses to run as root. Returns undefined
 * otherwise.
 */
export function unprivileged(...names) {
  if (process.getuid?.() !== 0) return undefined;
  const rows = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  for (const name of names) {
    const row = rows.find(([user]) => user === name);
    if (row) return { uid: Number(row[2]), gid: Number(row[3]) };
  }
  throw new Error(`None of the users ${names.join(', ')} exists, and a server must not run as root.`);
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

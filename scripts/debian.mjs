// The programs that the tests need beside Node: found where they are, else installed from Debian's packages where
// that is allowed, else named exactly. Nothing installed here is started: the tests start their own, on private ports.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Debian package → the program that shows that it is there. */
const PROGRAMS = {
  'redis-server': 'redis-server',
  postgresql: 'postgres',
  'gnome-keyring': 'gnome-keyring-daemon',
  dbus: 'dbus-daemon',
  'nginx-light': 'nginx',
  tmux: 'tmux',
};

/** All packages that some test needs. */
export const PACKAGES = Object.keys(PROGRAMS);

const POLICY = '/usr/sbin/policy-rc.d';

/** Debian keeps servers outside of an ordinary user's PATH, and PostgreSQL's in a folder per version. */
function folders() {
  const base = '/usr/lib/postgresql';
  const versions = existsSync(base) ? readdirSync(base).sort((a, b) => Number(b) - Number(a)) : [];
  const path = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return [...versions.map((version) => join(base, version, 'bin')), ...path, '/usr/sbin', '/usr/local/sbin'];
}

/**
 * The path of a program, or undefined where there is none.
 * @param {string} program
 */
export function find(program) {
  return folders()
    .map((folder) => join(folder, program))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/**
 * Which of these Debian packages' programs are not on this machine.
 * @param {readonly string[]} packages
 */
export function missing(packages) {
  return packages.filter((name) => find(PROGRAMS[name] ?? name) === undefined);
}

/**
 * Installs what is missing where this user may. Returns what is still missing afterwards, which is nothing where all
 * went well; `advice` puts that into words.
 * @param {readonly string[]} packages
 * @param {(line: string) => void} [say]
 * @returns {string[]}
 */
export function ensure(packages, say = (line) => console.error(line)) {
  const wanted = missing(packages);
  if (wanted.length === 0 || process.getuid?.() !== 0 || !find('apt-get')) return wanted;
  say(`installing ${wanted.join(', ')} with apt-get`);
  withoutStartingServices(() => {
    const install = ['install', '-y', '--no-install-recommends', ...wanted];
    if (apt(install)) return;
    apt(['update']);
    if (!apt(install)) say('apt-get could not install them; its messages are above');
  });
  return missing(wanted);
}

/**
 * The sentence that tells a person what to install.
 * @param {readonly string[]} packages
 */
export function advice(packages) {
  return `Missing: ${packages.join(', ')}. Install them with: sudo apt-get install -y --no-install-recommends ${packages.join(' ')}`;
}

function apt(args) {
  const options = ['-q', '-o', 'DPkg::Lock::Timeout=300', '-o', 'Dpkg::Use-Pty=0'];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const { status, stdout, stderr } = spawnSync('apt-get', [...options, ...args], { env, encoding: 'utf8' });
  if (status !== 0) process.stderr.write(`${stdout}${stderr}`);
  return status === 0;
}

/** Debian starts a server on installation unless this file says no; one that is there already is left alone. */
function withoutStartingServices(work) {
  const ours = !existsSync(POLICY);
  if (ours) writeFileSync(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    work();
  } finally {
    if (ours) rmSync(POLICY, { force: true });
  }
}

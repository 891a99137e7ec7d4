// The programs that tests need beside Node, all at once and before the tests, so that none of them stops half-way.
import { need } from './services/install.mjs';

/** Debian package → the program that shows that it is there. */
const PROGRAMS = {
  'redis-server': 'redis-server',
  postgresql: 'postgres',
  'gnome-keyring': 'gnome-keyring-daemon',
  dbus: 'dbus-daemon',
  'nginx-light': 'nginx',
  haproxy: 'haproxy',
  pgbouncer: 'pgbouncer',
  tmux: 'tmux',
};

/** A server that the environment names need not be installed here. */
const NAMED = { 'redis-server': 'VALISE_TEST_REDIS', postgresql: 'VALISE_TEST_POSTGRES' };

/**
 * Installs what is missing where this user may. Where that does not work, one error names everything to install.
 * @param {readonly string[]} [packages] Debian's names; all that any test needs, unless told
 */
export function ensure(packages = Object.keys(PROGRAMS)) {
  const failures = packages.flatMap((name) => {
    if (process.env[NAMED[name]]) return [];
    try {
      need(PROGRAMS[name] ?? name, name);
      return [];
    } catch (error) {
      return [{ name, message: error.message }];
    }
  });
  if (failures.length === 0) return;
  const names = failures.map(({ name }) => name).join(' ');
  const details = failures.map(({ message }) => `  ${message}`).join('\n');
  throw new Error(
    `Missing: ${names}. Install them with \`sudo apt-get install -y --no-install-recommends ${names}\`, or run \`npm test -- --no-services\`.\n${details}`,
  );
}

// Installs the programs that tests need besides Node, all at once and before the tests, so that no test stops halfway.
import { need } from './services/install.mjs';

/** Maps a Debian package to the program that proves that it is installed. */
const PROGRAMS = {
  'redis-server': 'redis-server',
  postgresql: 'postgres',
  'gnome-keyring': 'gnome-keyring-daemon',
  dbus: 'dbus-daemon',
  'nginx-light': 'nginx',
  haproxy: 'haproxy',
  pgbouncer: 'pgbouncer',
  prometheus: 'prometheus',
  tmux: 'tmux',
  chromium: 'chromium',
};

/** Programs that not every release has. Their tests are skipped, with the reason, if they cannot be installed. */
const OPTIONAL = ['valkey-server'];

/** A server that the environment names need not be installed here. */
const NAMED = { 'redis-server': 'VALISE_TEST_REDIS', postgresql: 'VALISE_TEST_POSTGRES' };

/**
 * Installs missing packages if this user is allowed to. If that fails, one error names everything to install.
 * @param {readonly string[]} [packages] Debian package names; by default all that any test needs
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
  for (const name of OPTIONAL) {
    try {
      need(name, name);
    } catch (error) {
      console.error(`Without ${name}: ${error.message}`);
    }
  }
  if (failures.length === 0) return;
  const names = failures.map(({ name }) => name).join(' ');
  const details = failures.map(({ message }) => `  ${message}`).join('\n');
  throw new Error(
    `Missing: ${names}. Install them with \`sudo apt-get install -y --no-install-recommends ${names}\`, or run \`npm test -- --no-services\`.\n${details}`,
  );
}

// Installs a Node 22 from npm into .cache, beside the Node in use: `node:sqlite` exists only from that version on, and some
// tools need it.
import { existsSync } from 'node:fs';
import { must, root } from './steps.mjs';

const VERSION = '22.23.3';
const HOMES = ['linux-x64', 'linux-arm64'];

/**
 * Returns the path of a Node 22; undefined if npm has none for this machine.
 * @returns {Promise<string | undefined>}
 */
export async function node22() {
  const home = `${process.platform}-${process.arch}`;
  if (!HOMES.includes(home)) return undefined;
  const folder = `${root}.cache/node22`;
  const binary = `${folder}/node_modules/node-${home}/bin/node`;
  if (!existsSync(binary)) {
    const name = `node-${home}@${VERSION}`;
    await must(`Node ${VERSION}`, 'npm', [
      'install',
      '--prefix',
      folder,
      '--no-audit',
      '--no-fund',
      '--no-save',
      name,
    ]);
  }
  return binary;
}

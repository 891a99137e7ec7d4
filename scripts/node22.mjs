// A Node 22 beside the one in use: `node:sqlite` exists only from there on, and some tools need it. From npm, into .cache.
import { existsSync } from 'node:fs';
import { must, root } from './steps.mjs';

const VERSION = '22.23.3';
const HOMES = ['linux-x64', 'linux-arm64'];

/**
 * The path of a Node 22; undefined where npm has none for this machine.
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

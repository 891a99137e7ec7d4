// Tools of the protocol's own makers, from npm, into .cache when they are first needed: both generations of the
// conformance suite, which run on Node 22, and the inspector.
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { node22 } from './node22.mjs';
import { must, root } from './steps.mjs';

const TOOLS = {
  conformance: { name: '@modelcontextprotocol/conformance', version: '0.1.16', main: 'dist/index.js' },
  'conformance-next': {
    name: '@modelcontextprotocol/conformance',
    version: '0.2.0-alpha.12',
    main: 'dist/index.js',
  },
  inspector: {
    name: '@modelcontextprotocol/inspector',
    version: '2.12.0',
    main: 'clients/launcher/build/index.js',
  },
};

/**
 * The path of a tool's program; throws where it cannot be installed.
 * @param {keyof typeof TOOLS} tool
 * @returns {Promise<string>}
 */
export async function toolPath(tool) {
  const { name, version, main } = TOOLS[tool];
  const folder = `${root}.cache/${tool}`;
  const path = `${folder}/node_modules/${name}/${main}`;
  if (!existsSync(path)) await install(`${name}@${version}`, folder);
  return path;
}

/**
 * The command that runs a conformance suite: a Node 22, and its program.
 * @param {'conformance' | 'conformance-next'} suite
 * @returns {Promise<readonly [string, string]>}
 */
export async function conformance(suite) {
  const node = await node22();
  if (!node) throw new Error(`npm has no Node 22 for ${process.platform} ${process.arch}`);
  return [node, await toolPath(suite)];
}

/** Installs beside the folder and moves it there when all is done, so that what is there is always whole. */
async function install(what, folder) {
  mkdirSync(`${root}.cache`, { recursive: true });
  const draft = mkdtempSync(`${folder}-`);
  try {
    // The programs that a package brings for its own installation are none of ours; and who is offline hears it soon.
    const options = ['--no-audit', '--no-fund', '--no-save', '--ignore-scripts', '--fetch-retries=1'];
    await must(what, 'npm', ['install', '--prefix', draft, ...options, what]);
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

// Installs tools of the MCP project from npm into .cache on first use: both generations of the conformance suite, which run
// on Node 22, and the inspector.
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
 * Returns the path of a tool's program; throws if it cannot be installed.
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
 * Returns the command that runs a conformance suite: the path of a Node 22, and the suite's program.
 * @param {'conformance' | 'conformance-next'} suite
 * @returns {Promise<readonly [string, string]>}
 */
export async function conformance(suite) {
  const node = await node22();
  if (!node) throw new Error(`npm has no Node 22 for ${process.platform} ${process.arch}`);
  return [node, await toolPath(suite)];
}

/** Installs into a temporary directory and renames it at the end, so that the directory is always complete. */
async function install(what, folder) {
  mkdirSync(`${root}.cache`, { recursive: true });
  const draft = mkdtempSync(`${folder}-`);
  try {
    // Install scripts of packages are not needed, and without a network npm should fail soon.
    const options = ['--no-audit', '--no-fund', '--no-save', '--ignore-scripts', '--fetch-retries=1'];
    await must(what, 'npm', ['install', '--prefix', draft, ...options, what]);
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

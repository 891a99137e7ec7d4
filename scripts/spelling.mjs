#!/usr/bin/env node
// `npm run check spelling`: cspell over documents, and over the comments and strings of the sources. The project's own words
// are in site/words.txt, in alphabetical order. `--words` prints the unknown words alone.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { install, installFolder } from './prepare.mjs';
import { sourceProse, spellingProse } from './prose.mjs';
import { root, run } from './steps.mjs';

const STAGE = `${root}.cache/spelling`;
const NOT_OURS = /(?:^|\/)(?:node_modules|dist|\.vitepress|vectors)\//;

await install();
await installFolder('site');
rmSync(STAGE, { recursive: true, force: true });
for (const folder of ['docs', 'spec', 'examples', 'src', 'cli', 'console/src', 'scripts', 'test'])
  for (const path of readdirSync(root + folder, { recursive: true, encoding: 'utf8' }))
    stage(`${folder}/${path}`);
for (const path of readdirSync(root)) stage(path);

const { code, output } = await run(
  process.execPath,
  [
    'node_modules/cspell/bin.mjs',
    'lint',
    ...['--config', 'cspell.json', '--root', STAGE, '--no-progress', '--no-summary', '--dot'],
    ...(process.argv.includes('--words') ? ['--words-only', '--unique'] : ['--show-suggestions']),
    '**/*.txt',
  ],
  { cwd: `${root}site`, quiet: true },
);
process.stdout.write(output.replaceAll('.txt:', ':'));
process.exitCode = code;

/** Writes the prose of a file, in its place, so that cspell reports the lines of the file. */
function stage(path) {
  if (NOT_OURS.test(path) || !/\.(?:md|tsx?|mjs)$/.test(path)) return;
  const text = readFileSync(root + path, 'utf8');
  const prose = path.endsWith('.md')
    ? spellingProse(text)
    : sourceProse(path, text, { titles: path.startsWith('test/') });
  mkdirSync(dirname(`${STAGE}/${path}`), { recursive: true });
  writeFileSync(`${STAGE}/${path}.txt`, prose);
}

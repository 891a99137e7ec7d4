#!/usr/bin/env node
// `npm run check words`: the English of documents, comments, messages and test titles. Documents have no sentence of more
// than 35 words and no banned construction (scripts/prose.mjs has the list). In the sources, each folder has a number of
// banned constructions that only goes down. `--list` prints all of them.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { bannedIn, documentProse, MAX_WORDS, sentencesOf, sourceProse } from './prose.mjs';
import { root } from './steps.mjs';

/**
 * How many banned constructions the comments and strings of a folder may have; in `test`, the titles. Never raise one.
 */
const ALLOWED = { src: 0, 'cli/src': 0, 'console/src': 0, examples: 0, scripts: 0, test: 0 };

/** Sources that are checked in full, and those whose titles alone are. */
const SOURCES = ['src', 'cli/src', 'console/src', 'examples', 'scripts'];
const TITLES = ['test'];

const NOT_OURS = /(?:^|\/)(?:node_modules|dist|reference)\//;

/** @param {string} folder @param {RegExp} ending */
function filesIn(folder, ending) {
  return readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
    .map((path) => `${folder}/${path}`)
    .filter((path) => ending.test(path) && !NOT_OURS.test(path))
    .sort();
}

const documents = [
  ...readdirSync(root).filter((file) => file.endsWith('.md')),
  ...['docs', 'spec', 'examples'].flatMap((folder) => filesIn(folder, /\.md$/)),
  ...['cli/README.md'].filter((file) => existsSync(root + file)),
];

const wrong = [];
for (const path of documents) {
  const text = readFileSync(root + path, 'utf8');
  for (const { line, words, text: sentence } of sentencesOf(text))
    if (words > MAX_WORDS) wrong.push(`${path}:${line}: ${words} words: ${sentence.slice(0, 70)}…`);
  for (const { line, found, instead } of bannedIn(documentProse(text)))
    wrong.push(`${path}:${line}: "${found}". Write ${instead}.`);
}

for (const folder of [...SOURCES, ...TITLES]) {
  const found = filesIn(folder, /\.(?:tsx?|mjs)$/).flatMap((path) =>
    bannedIn(sourceProse(path, readFileSync(root + path, 'utf8'), { titles: TITLES.includes(folder) })).map(
      ({ line, found: text, instead }) => `${path}:${line}: "${text}". Write ${instead}.`,
    ),
  );
  const allowed = ALLOWED[folder];
  if (process.argv.includes('--list')) for (const each of found) console.log(each);
  if (found.length > allowed)
    wrong.push(...found, `${folder} has ${found.length} of these; ${allowed} are allowed.`);
  if (found.length < allowed)
    console.log(`${folder} has only ${found.length} left: lower its number in scripts/words.mjs.`);
}

for (const line of wrong) console.error(line);
process.exitCode = wrong.length > 0 ? 1 : 0;

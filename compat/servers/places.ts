import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));

/** The root of the repository, with a slash at the end. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Where copies of the examples run, so that they find the packages of this folder, and Valise as it is published. */
export const work = `${here}.work/`;

/** The examples as they are in the repository. */
export const examples = `${root}examples/frameworks/`;

/** What the last run has found, a file for each framework. */
export const found = `${work}results/`;

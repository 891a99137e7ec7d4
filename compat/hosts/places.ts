import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../../', import.meta.url));

/** Where copies of the examples run, so that they find the packages of this folder, and Valise as it is published. */
export const work = `${here}.work/`;

/** The examples as they are in the repository. */
export const examples = `${root}examples/hosts/`;

/** The example servers. */
export const servers = `${root}examples/`;

/** What is kept in the repository of the last run that wrote. */
export const kept = `${here}results.json`;

/** The page that has the table. */
export const page = `${root}docs/hosts.md`;

/** What is kept of the last run about clients without Valise, and the pages with its tables. */
export const keptClients = `${here}clients.json`;
export const clientsPage = `${root}docs/clients.md`;
export const readme = `${root}README.md`;

/** The program that runs one host without Valise, at several servers. */
export const stockRunner = `${here}run-stock.ts`;

/** The program that runs one host. */
export const runner = `${here}run.ts`;

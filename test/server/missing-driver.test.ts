import { describe, expect, it } from 'vitest';
import { withoutPackages } from '../store/elsewhere-packages.ts';

const SUFFIX = { tldts: 'export const parse = () => ({});' };

const CASES: readonly (readonly [store: string, command: string])[] = [
  ['redis://127.0.0.1:1', 'npm install ioredis'],
  ['rediss://127.0.0.1:1', 'npm install ioredis'],
  ['postgres://127.0.0.1:1/db', 'npm install pg'],
  ['sqlite:./state.db', 'npm install better-sqlite3'],
];
const bringsSqlite = process.getBuiltinModule?.('node:sqlite' as never) !== undefined;

describe('createValise() with the URL of a store whose package is not installed', () => {
  it.each(CASES.filter(([store]) => !(bringsSqlite && store.startsWith('sqlite'))))(
    'createValise() throws immediately if the package for %s is not installed, and says what to run',
    async (store, command) => {
      const outcome = await withoutPackages(
        'server/index.ts',
        'createValise',
        { name: 'shop', store },
        SUFFIX,
      );
      expect(outcome).toMatchObject({ code: 'missing-package' });
      expect(outcome.message).toContain(command);
    },
  );
});

import { createRequire } from 'node:module';
import { ValiseError } from '../../core/errors.ts';

/** A parameter or column of a statement. */
export type SqlValue = string | number | null;

/** A prepared statement, as both libraries provide it. */
export interface Statement {
  get(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
  run(...values: SqlValue[]): { readonly changes: number | bigint };
}

/** A database, as both libraries provide it. */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): Statement;
  close(): unknown;
}

type Constructor = new (path: string) => Database;

let known: Constructor | undefined;

/** Opens a database with Node's built-in SQLite, or with better-sqlite3 if Node has none. */
export function openDatabase(path: string): Database {
  return new (loadSqlite())(path);
}

/** Loads the library. Call it before creating anything that only the library can use. */
export function loadSqlite(): Constructor {
  known ??= builtIn() ?? installed();
  return known;
}

function builtIn(): Constructor | undefined {
  const module = process.getBuiltinModule?.('node:sqlite') as { DatabaseSync?: Constructor } | undefined;
  return module?.DatabaseSync;
}

function installed(): Constructor {
  try {
    const Database = createRequire(import.meta.url)('better-sqlite3') as Constructor;
    // Creating a database loads the native part.
    new Database(':memory:').close();
    return Database;
  } catch (cause) {
    throw new ValiseError(
      'missing-package',
      'SQLite needs the package better-sqlite3 on this version of Node.',
      {
        next: 'Run: npm install better-sqlite3@12 (or use Node 22.13 or later, which brings SQLite).',
        cause,
      },
    );
  }
}

/** The kind of an SQLite error, as far as it matters here. */
export type SqliteErrorKind = 'busy' | 'read-only' | 'io' | 'corrupt' | 'full' | 'cannot-open' | 'other';

const ERROR_KINDS: Readonly<Record<number, SqliteErrorKind>> = {
  5: 'busy',
  6: 'busy',
  8: 'read-only',
  10: 'io',
  11: 'corrupt',
  13: 'full',
  14: 'cannot-open',
  26: 'corrupt',
};

const NAMES: readonly (readonly [string, SqliteErrorKind])[] = [
  ['SQLITE_BUSY', 'busy'],
  ['SQLITE_LOCKED', 'busy'],
  ['SQLITE_READONLY', 'read-only'],
  ['SQLITE_IOERR', 'io'],
  ['SQLITE_CORRUPT', 'corrupt'],
  ['SQLITE_FULL', 'full'],
  ['SQLITE_CANTOPEN', 'cannot-open'],
  ['SQLITE_NOTADB', 'corrupt'],
];

/** Returns the kind of an error of either library: `node:sqlite` reports a number, better-sqlite3 a name. */
export function errorKindOf(error: unknown): SqliteErrorKind {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === 'number') return ERROR_KINDS[errcode & 0xff] ?? 'other';
  if (typeof code !== 'string') return 'other';
  return NAMES.find(([name]) => code.startsWith(name))?.[1] ?? 'other';
}

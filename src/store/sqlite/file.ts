import { randomBytes } from 'node:crypto';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readSync,
  rmSync,
  statfsSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { ValiseError } from '../../core/errors.ts';
import {
  busyError,
  checkPrivate,
  corruptError,
  errnoOf,
  foreignError,
  fsError,
  fullError,
  readOnlyError,
  setAside,
  statOf,
} from '../private-file.ts';
import { type Database, errorKindOf, openDatabase } from './library.ts';

/** `VALS`: the application id in the SQLite header that identifies Valise files. */
const APPLICATION = 0x56414c53;
const APPLICATION_AT = 68;
const FORMAT = 1;
const OPEN_SECONDS = 15;
const PARTS = ['', '-wal', '-shm'];

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS entry (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    version TEXT NOT NULL,
    expires INTEGER
  ) STRICT;
  CREATE INDEX IF NOT EXISTS entry_expires ON entry (expires) WHERE expires IS NOT NULL;
  CREATE TABLE IF NOT EXISTS lease (
    fence INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT UNIQUE NOT NULL,
    until INTEGER NOT NULL
  ) STRICT;
  PRAGMA application_id = ${APPLICATION};
  PRAGMA user_version = ${FORMAT};
`;

/** Opens the database in `file`, and creates the schema if it is new. */
export function openSqliteFile(file: string): Database {
  checkParts(file);
  try {
    // An existing file is not opened here, because closing it would release the locks of everyone who has it open in
    // this process.
    if (existsSync(file)) accessSync(file, constants.W_OK);
    // The file is created here first, because SQLite would make it readable by all.
    else closeSync(openSync(file, 'a', 0o600));
  } catch (error) {
    throw fsError(error, file, 'write');
  }
  let database: Database | undefined;
  try {
    database = openDatabase(file);
    // The timeout is long while opening, when nobody waits for other work, and short afterwards, because SQLite blocks
    // the whole process.
    database.exec('PRAGMA busy_timeout = 1000');
    prepare(database, file);
    database.exec('PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 20');
    return database;
  } catch (error) {
    database?.close();
    throw sqliteError(error, file);
  }
}

/** Throws `store-denied` if the database, or a file that SQLite keeps next to it, is accessible to other users. */
export function checkParts(file: string): void {
  for (const part of [...PARTS, '-journal']) {
    const stats = statOf(file + part);
    if (stats) checkPrivate(file + part, stats);
  }
}

function prepare(database: Database, file: string): void {
  const number = (sql: string) => Number(Object.values(database.prepare(sql).get() as object)[0]);
  const isOurs = () => number('PRAGMA application_id') === APPLICATION;
  patiently(() => {
    // The order matters: if another process creates the schema between the two checks, it has our mark.
    if (number('SELECT count(*) FROM sqlite_schema') === 0 || isOurs()) return;
    throw foreignError(file, 'it is the database of another program');
  });
  if (isOurs() && number('PRAGMA user_version') > FORMAT)
    throw foreignError(file, 'a newer version has written it');
  patiently(() => {
    database.exec('PRAGMA journal_mode = WAL');
    if (!isOurs()) database.exec(`BEGIN IMMEDIATE; ${SCHEMA} COMMIT;`);
  });
}

/**
 * Retries while the database is busy. Many processes may open a new database at the same moment; one creates it, the
 * others wait.
 */
function patiently(work: () => void): void {
  const end = performance.now() + OPEN_SECONDS * 1000;
  for (;;) {
    try {
      work();
      return;
    } catch (error) {
      if (errorKindOf(error) !== 'busy' || performance.now() > end) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1 + Math.random() * 10);
    }
  }
}

/** SQLite copies its log into the database after 1,000 pages of 4 KiB. The database grows by that at most, and by one value. */
const RESERVE_BYTES = 5 * 1024 * 1024;
const BLOCK_BYTES = 256 * 1024;

/**
 * Keeps some space next to the database for {@link freeReserve}, as long as the disk has plenty. The bytes are random,
 * so that file systems do not compress them.
 */
export function keepReserve(file: string): void {
  const path = `${file}-reserve`;
  let fd: number | undefined;
  try {
    if (statOf(path)?.size === RESERVE_BYTES) return;
    const { bavail, bsize } = statfsSync(dirname(file));
    if (bavail * bsize < 3 * RESERVE_BYTES) return;
    rmSync(path, { force: true });
    fd = openSync(path, 'wx', 0o600);
    const block = randomBytes(BLOCK_BYTES);
    for (let size = 0; size < RESERVE_BYTES; size += BLOCK_BYTES) writeSync(fd, block);
  } catch {
    // Another process was faster, or the disk is full: the next check tries again.
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * Makes room to delete entries on a full disk. A deletion appends to the log, and the log starts over only after it was
 * copied into the database, which may have to grow for that. Afterwards, deletions reuse the space of the log. Returns
 * false if there was no reserve.
 */
export function freeReserve(file: string, database: Database): boolean {
  try {
    unlinkSync(`${file}-reserve`);
  } catch {
    return false;
  }
  try {
    database.exec('PRAGMA wal_checkpoint(RESTART)');
  } catch {
    // The room may still be enough for the deletion itself.
  }
  return true;
}

/** Returns the error for a file that was removed or replaced after it was opened. */
export function movedError(file: string): ValiseError {
  return new ValiseError('store-failed', `${file} has been removed or replaced since the store was opened.`, {
    next: 'What this store wrote since then is lost. Open the store again.',
  });
}

/** Returns the typed error for an SQLite error. Sets a damaged Valise file aside; the caller has closed it. */
export function sqliteError(error: unknown, file: string): ValiseError {
  if (error instanceof ValiseError) return error;
  const kind = errorKindOf(error);
  if (kind === 'full' || (kind !== 'busy' && isFull(file))) return fullError(file, error);
  switch (kind) {
    case 'busy':
      return busyError(file, 'another process', 'Wait until its work is done and try again.');
    case 'read-only':
      return readOnlyError(file, error);
    case 'corrupt':
      return isMarked(file)
        ? corruptError(file, setAside(file, PARTS), String((error as Error).message), error)
        : foreignError(file, 'it lacks the mark of one');
    case 'cannot-open':
      return fsError(error, file, 'read');
    default:
      return new ValiseError(
        'store-failed',
        `SQLite failed on ${file}: ${String((error as Error)?.message)}.`,
        {
          next: 'What was stored before is still there. The cause says what SQLite answered.',
          cause: error,
        },
      );
  }
}

/** Whether the file starts like a Valise database, regardless of the rest. */
function isMarked(file: string): boolean {
  const header = Buffer.alloc(APPLICATION_AT + 4);
  let fd: number | undefined;
  try {
    fd = openSync(file, 'r');
    readSync(fd, header, 0, header.length, 0);
  } catch (error) {
    // Another process has already set it aside.
    if (errnoOf(error) === 'ENOENT') return true;
    throw fsError(error, file, 'read');
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
  return (
    header.toString('latin1', 0, 16) === 'SQLite format 3\0' &&
    header.readUInt32BE(APPLICATION_AT) === APPLICATION
  );
}

/** Whether the disk is full. SQLite then fails with several errors, and only one of them says so. */
function isFull(file: string): boolean {
  try {
    return statfsSync(dirname(file)).bavail === 0;
  } catch {
    return false;
  }
}

import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { ValiseError } from '../core/errors.ts';

/** Resolves a path, which may start with `~/`. */
export function fullPath(path: string): string {
  if (path === ':memory:')
    throw new ValiseError('store-invalid', '":memory:" would be a file of that name.', {
      next: 'For a store in memory use the URL memory:, or memoryStore().',
    });
  if (path === '~')
    throw new ValiseError('store-invalid', '"~" is your home folder, and no file.', {
      next: 'Name a file in it, such as ~/.valise/state.db.',
    });
  const [other] = /^~[^/\\]+/.exec(path) ?? [];
  if (other !== undefined)
    throw new ValiseError('store-invalid', `"${other}" would be a name like any other, and nobody's home.`, {
      next: `Give the full path, or ./${path} where that is meant.`,
    });
  // An empty HOME must not resolve to the current folder.
  return resolve(path.startsWith('~/') ? join(homedir() || userInfo().homedir, path.slice(2)) : path);
}

/**
 * Resolves the path of a secret file and verifies that it belongs to this user and only its owner can read it. Creates
 * its folder (0700) if it is missing. Throws if others could read or replace the file, with the command that fixes it.
 */
export function privateFile(path: string): string {
  const wanted = fullPath(path);
  const folder = privateFolder(dirname(wanted));
  // A link is resolved once, so that replacing the file does not replace the link.
  const file = realPath(wanted) ?? join(folder, basename(wanted));
  const stats = statOf(file);
  if (stats === undefined) return file;
  if (!stats.isFile()) {
    throw new ValiseError('store-corrupt', `${file} is not a file.`, { next: 'Give the path of a file.' });
  }
  checkPrivate(file, stats);
  try {
    accessSync(file, constants.R_OK);
  } catch (error) {
    throw fsError(error, file, 'read');
  }
  return file;
}

/** Throws `store-denied` if a file belongs to another user, or if others can read or write it. */
export function checkPrivate(file: string, stats: Pick<Stats, 'mode' | 'uid'>): void {
  const own = process.getuid?.();
  if (own === undefined) return;
  if (stats.uid !== own && !(own === 0 && isReachedByRoot(file, stats.uid)))
    throw ownerError(file, stats, own);
  if ((stats.mode & 0o077) === 0) return;
  throw new ValiseError('store-denied', `${file} can be read or written by others (mode ${octal(stats)}).`, {
    next: `Run: chmod 600 ${quoted(file)}`,
  });
}

/**
 * Whether root may use another user's file: in that user's folder, or in one that nobody else can enter, but not in a
 * shared one such as /tmp.
 */
function isReachedByRoot(file: string, owner: number): boolean {
  const folder = statOf(dirname(file));
  return folder !== undefined && (folder.uid === owner || (folder.mode & 0o011) === 0);
}

function ownerError(path: string, { uid }: Pick<Stats, 'uid'>, own: number): ValiseError {
  return new ValiseError('store-denied', `${path} belongs to another user (uid ${uid}).`, {
    next: `Choose another place; or, if it is to be yours, run: ${own === 0 ? '' : 'sudo '}chown ${own} ${quoted(path)}`,
  });
}

/** Renames a file that cannot be parsed, so that nothing overwrites it. Returns the new name. */
export function setAside(file: string, suffixes: readonly string[] = ['']): string {
  const stamp = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  let aside = `${file}.corrupt-${stamp}`;
  for (let more = 2; statOf(aside) !== undefined; more++) aside = `${file}.corrupt-${stamp}-${more}`;
  for (const suffix of suffixes) {
    try {
      renameSync(file + suffix, aside + suffix);
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw fsError(error, file, 'write');
    }
  }
  return aside;
}

/** Returns the error for a file that was set aside. */
export function corruptError(file: string, aside: string, why: string, cause?: unknown): ValiseError {
  return new ValiseError('store-corrupt', `${file} is damaged (${why}) and is now kept as ${aside}.`, {
    next: 'Put a good copy in its place, or open the store again to start empty.',
    cause,
  });
}

/** Returns the error for a file of another program, which is left unchanged. */
export function foreignError(file: string, why: string): ValiseError {
  return new ValiseError('store-corrupt', `${file} is not a store of this version of Valise (${why}).`, {
    next: 'Choose another file; this one has been left as it is.',
  });
}

/** Creates folders one by one: on file systems that cannot create folders, such as /proc, Node's own recursion never ends. */
function makeFolder(folder: string): void {
  if (isFolder(folder)) return;
  if (dirname(folder) !== folder) makeFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST' || !isFolder(folder)) throw error;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function privateFolder(folder: string): string {
  try {
    makeFolder(folder);
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'EACCES' || errno === 'EPERM' || errno === 'EROFS') throw readOnlyError(folder, error);
    throw fsError(error, folder, 'write');
  }
  const stats = statSync(folder);
  const own = process.getuid?.();
  // The owner of a folder may replace the files in it, even if it is sticky.
  if (own !== undefined && own !== 0 && stats.uid !== own && stats.uid !== 0)
    throw ownerError(folder, stats, own);
  // In a sticky folder, such as /tmp, only the owner of a file may replace it.
  if (process.platform !== 'win32' && (stats.mode & 0o1002) === 0o002) {
    throw new ValiseError(
      'store-denied',
      `Everybody may replace files in ${folder} (mode ${octal(stats)}).`,
      {
        next: `Run: chmod o-w ${quoted(folder)}`,
      },
    );
  }
  return realpathSync(folder);
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw fsError(error, path, 'read');
  }
}

/** Returns the stats of a path, or undefined if it does not exist. */
export function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw fsError(error, path, 'read');
  }
}

function octal({ mode }: Pick<Stats, 'mode'>): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

/** Quotes a path or URL as one shell word. */
export function quoted(path: string): string {
  return /^[\w:./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** The owner of a file. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** The current file, still open on POSIX systems: the inode number of an open file is not reused. */
export interface Pinned {
  readonly stats: BigIntStats;
  readonly fd: number | undefined;
}

/** Whether files can be replaced while they are open. */
export const canPin = process.platform !== 'win32';

/**
 * Replaces the content of `path` with `text` atomically: a reader sees all of the old or all of the new content, even
 * after a crash or a power failure. `temporary` must be in the same folder. `ready` is called last and can still
 * cancel.
 */
export function replaceFile(
  path: string,
  temporary: string,
  text: string,
  { owner, ready }: { readonly owner?: Owner | undefined; ready(): boolean },
): Pinned | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(temporary, 'w', 0o600);
    // A program that runs as root must not take files away from the user who owns them.
    if (owner && owner.uid !== 0 && process.getuid?.() === 0) fchownSync(fd, owner.uid, owner.gid);
    writeFileSync(fd, text);
    // Without fsync, a file system may write the new name before the new bytes.
    fsyncSync(fd);
    const stats = fstatSync(fd, { bigint: true });
    if (!canPin) fd = void closeSync(fd);
    if (ready()) {
      renameSync(temporary, path);
      return { stats, fd };
    }
    if (fd !== undefined) closeSync(fd);
    removeFile(temporary);
    return undefined;
  } catch (error) {
    if (fd !== undefined) closeSync(fd);
    removeFile(temporary);
    throw fsError(error, path, 'write');
  }
}

const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Returns the `code` of a Node file system error, such as `ENOENT`. */
export function errnoOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** Removes a file if it exists. */
export function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

/** Returns the typed error for a failed file system operation on `path`. Returns a {@link ValiseError} unchanged. */
export function fsError(error: unknown, path: string, doing: 'read' | 'write'): ValiseError {
  if (error instanceof ValiseError) return error;
  const errno = errnoOf(error);
  if (errno !== undefined && FULL.has(errno)) return fullError(path, error);
  if (errno === 'EROFS' || ((errno === 'EACCES' || errno === 'EPERM') && doing === 'write')) {
    return readOnlyError(path, error);
  }
  if (doing === 'read') {
    return new ValiseError('store-corrupt', `${path} cannot be read (${errno ?? String(error)}).`, {
      next: 'Check that it is a file and that this user may read it.',
      cause: error,
    });
  }
  return new ValiseError('store-failed', `${path} could not be written (${errno ?? String(error)}).`, {
    next: 'What was stored before is still there. The cause says what the system answered.',
    cause: error,
  });
}

/** Returns the error for a full disk. */
export function fullError(path: string, cause: unknown): ValiseError {
  return new ValiseError('store-full', `There is no room left to write ${path}.`, {
    next: 'What was stored before is still there. Free some space and try again.',
    cause,
  });
}

/** Returns the error for a path that this user may not write. */
export function readOnlyError(path: string, cause: unknown): ValiseError {
  return new ValiseError('store-read-only', `${path} cannot be written: it or its folder is read-only.`, {
    next: 'Choose another folder, or give this user the right to write there.',
    cause,
  });
}

/** Returns the error for a store that another holder kept locked for too long. */
export function busyError(path: string, holder: string, next: string): ValiseError {
  return new ValiseError('store-busy', `${path} is kept busy by ${holder}.`, { next });
}

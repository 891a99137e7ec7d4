import {
  type BigIntStats,
  closeSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { fsError, removeFile } from './fs-error.ts';

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

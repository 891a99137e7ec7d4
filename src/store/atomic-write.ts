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

/** Who a file belongs to. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** A file that is there now, and, on POSIX systems, still open: the number of an open file is given to no other one. */
export interface Pinned {
  readonly stats: BigIntStats;
  readonly fd: number | undefined;
}

/** Whether files can be replaced while they are open. */
export const canPin = process.platform !== 'win32';

/**
 * Replaces `path` by `text` in one step: whoever reads it, whenever power or process ends, sees all of the old or all of the new.
 * `temporary` must be in the same folder; `ready` is asked last and can still call it off.
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
    // Run as root, a program must not take its files away from the user they belong to.
    if (owner && owner.uid !== 0 && process.getuid?.() === 0) fchownSync(fd, owner.uid, owner.gid);
    writeFileSync(fd, text);
    // Without this, a file system may write the new name before the new bytes.
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

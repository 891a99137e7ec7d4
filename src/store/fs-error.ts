import { unlinkSync } from 'node:fs';
import { ValiseError } from '../errors.ts';

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

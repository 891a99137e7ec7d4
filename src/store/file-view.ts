import { type BigIntStats, closeSync, fstatSync, openSync, readFileSync, statSync } from 'node:fs';
import { canPin, type Owner, type Pinned } from './atomic-write.ts';
import { type Document, emptyDocument, parseDocument, type Reading } from './file-document.ts';
import type { FileLock } from './file-lock.ts';
import { errnoOf, fsError } from './fs-error.ts';
import { checkPrivate, corruptError, foreignError, setAside } from './private-file.ts';

/** What the file holds, read again only when it has been replaced. */
export class FileView {
  readonly #path: string;
  readonly #lock: FileLock;
  #document: Document | undefined;
  #stats: BigIntStats | undefined;
  #pin: number | undefined;
  #sorted: string[] | undefined;
  #broken: Error | undefined;

  constructor(path: string, lock: FileLock) {
    this.#path = path;
    this.#lock = lock;
  }

  /** Who the file belongs to, where there is one. */
  get owner(): Owner | undefined {
    return this.#stats && { uid: Number(this.#stats.uid), gid: Number(this.#stats.gid) };
  }

  /** The document as the file has it now. */
  read(): Document {
    if (this.#broken) throw this.#broken;
    const now = this.#stat();
    // Each time: it may have been replaced, or opened to others, since it was looked at last.
    if (now) checkPrivate(this.#path, { mode: Number(now.mode), uid: Number(now.uid) });
    if (this.#document && sameFile(now, this.#stats)) return this.#document;
    this.forget();
    this.#document = now ? this.#load() : emptyDocument();
    return this.#document;
  }

  /** All keys in order. */
  sortedKeys(): readonly string[] {
    this.#sorted ??= [...this.read().entries.keys()].sort();
    return this.#sorted;
  }

  /** The document, changed in place, is what the file now holds. */
  wrote({ stats, fd }: Pinned): void {
    this.#unpin();
    this.#sorted = undefined;
    this.#stats = stats;
    this.#pin = fd;
  }

  /** Reads anew the next time. */
  forget(): void {
    this.#unpin();
    this.#document = undefined;
    this.#sorted = undefined;
    this.#stats = undefined;
  }

  close(): void {
    this.forget();
  }

  #stat(): BigIntStats | undefined {
    try {
      return statSync(this.#path, { bigint: true, throwIfNoEntry: false });
    } catch (error) {
      throw fsError(error, this.#path, 'read');
    }
  }

  #load(): Document {
    const text = this.#pinFile();
    const reading = readingOf(text);
    if (reading.is === 'document') return reading.document;
    this.forget();
    // For this handle that is the end: it must not go on as if the store were empty.
    this.#broken =
      reading.is === 'foreign' ? foreignError(this.#path, reading.why) : this.#setAside(reading.why);
    throw this.#broken;
  }

  /** Reads the file and keeps it open, so that its number alone tells whether it has been replaced, however soon after. */
  #pinFile(): string {
    let fd: number | undefined;
    try {
      fd = openSync(this.#path, 'r');
      this.#stats = fstatSync(fd, { bigint: true });
      const text = readFileSync(fd, 'utf8');
      if (canPin) this.#pin = fd;
      else closeSync(fd);
      return text;
    } catch (error) {
      if (fd !== undefined) closeSync(fd);
      this.#stats = undefined;
      if (errnoOf(error) === 'ENOENT') return '';
      throw fsError(error, this.#path, 'read');
    }
  }

  #unpin(): void {
    if (this.#pin !== undefined) closeSync(this.#pin);
    this.#pin = undefined;
  }

  /** Under the lock, so that of several processes one does it and no good file is taken for the bad one. */
  #setAside(why: string): Error {
    const mine = this.#lock.held();
    if (!mine) this.#lock.acquireSync();
    try {
      const again = readingOf(readFileSync(this.#path, 'utf8'));
      if (again.is !== 'damaged') throw new Error('it has been mended');
      return corruptError(this.#path, setAside(this.#path), why);
    } catch (error) {
      return fsError(error, this.#path, 'read');
    } finally {
      if (!mine) this.#lock.release();
    }
  }
}

/** How a document of ours begins, however it goes on. */
const BEGINNING = /^\s*\{\s*"valise"\s*:/;

/** What a text is. Only what begins as ours can be ours and damaged; all else is somebody's who will look for it here. */
function readingOf(text: string): Reading {
  const reading = parseDocument(text);
  if (reading.is !== 'damaged' || BEGINNING.test(text)) return reading;
  return { is: 'foreign', why: reading.why };
}

function sameFile(one: BigIntStats | undefined, two: BigIntStats | undefined): boolean {
  if (one === undefined || two === undefined) return one === two;
  return one.ino === two.ino && one.mtimeNs === two.mtimeNs && one.size === two.size && one.dev === two.dev;
}

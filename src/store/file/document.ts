import { type BigIntStats, closeSync, fstatSync, openSync, readFileSync, statSync } from 'node:fs';
import { isObject, type Json } from '../../core/json.ts';
import {
  canPin,
  checkPrivate,
  corruptError,
  errnoOf,
  foreignError,
  fsError,
  type Owner,
  type Pinned,
  setAside,
} from '../private-file.ts';
import type { FileLock } from './lock.ts';

/** An entry of the document, stored as text so that it does not have to be serialized again. */
export interface Slot {
  readonly text: string;
  readonly version: string;
  /** Infinity if the entry does not expire. */
  readonly expiresAt: number;
  /** The whole entry as it appears in the file. */
  readonly line: string;
}

/** The holder of a lease, and its expiry. */
export interface Holder {
  readonly fence: number;
  readonly until: number;
}

/** The content of a store file. */
export interface Document {
  readonly entries: Map<string, Slot>;
  readonly leases: Map<string, Holder>;
  /** The last fence that was issued. */
  fence: number;
}

const FORMAT = 1;

function emptyDocument(): Document {
  return { entries: new Map(), leases: new Map(), fence: 0 };
}

/** Creates an entry from its parts. */
export function slotOf(key: string, text: string, version: string, expiresAt: number): Slot {
  const end = expiresAt === Number.POSITIVE_INFINITY ? '' : `"expiresAt":${expiresAt},`;
  const line = `${JSON.stringify(key)}:{"version":${JSON.stringify(version)},${end}"value":${text}}`;
  return { text, version, expiresAt, line };
}

/** Removes expired entries and leases. */
export function dropExpired({ entries, leases }: Document, now: number): void {
  for (const [key, { expiresAt }] of entries) if (expiresAt <= now) entries.delete(key);
  for (const [key, { until }] of leases) if (until <= now) leases.delete(key);
}

/** Returns the text of a document: JSON with one entry per line. */
export function printDocument({ entries, leases, fence }: Document): string {
  const lines: string[] = [];
  for (const { line } of entries.values()) lines.push(line);
  const held = [...leases].map(
    ([key, { fence: own, until }]) => `${JSON.stringify(key)}:{"fence":${own},"until":${until}}`,
  );
  return `{"valise":${FORMAT},"fence":${fence},"leases":{${held.join(',')}},"entries":{\n${lines.join(',\n')}\n}}\n`;
}

/** The result of reading a file. */
export type Reading =
  | { readonly is: 'document'; readonly document: Document }
  | { readonly is: 'foreign'; readonly why: string }
  | { readonly is: 'damaged'; readonly why: string };

/** Parses the text of a document, which any program may have written. */
function parseDocument(text: string): Reading {
  if (text === '') return { is: 'document', document: emptyDocument() };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { is: 'damaged', why: 'it is not JSON' };
  }
  if (!isObject(json) || json['valise'] === undefined)
    return { is: 'foreign', why: 'it lacks the mark of one' };
  if (json['valise'] !== FORMAT)
    return { is: 'foreign', why: `its format is ${JSON.stringify(json['valise'])}` };
  const { fence, leases, entries } = json;
  if (!isCount(fence) || !isObject(leases) || !isObject(entries))
    return { is: 'damaged', why: 'a part is missing' };
  const document: Document = { entries: new Map(), leases: new Map(), fence };
  for (const [key, holder] of Object.entries(leases)) {
    if (!isObject(holder) || !isCount(holder['fence']) || !isCount(holder['until'])) return damagedAt(key);
    document.leases.set(key, { fence: holder['fence'], until: holder['until'] });
  }
  for (const [key, entry] of Object.entries(entries)) {
    if (!isObject(entry) || typeof entry['version'] !== 'string' || !('value' in entry))
      return damagedAt(key);
    const { version, expiresAt = Number.POSITIVE_INFINITY, value } = entry;
    if (typeof expiresAt !== 'number') return damagedAt(key);
    document.entries.set(key, slotOf(key, JSON.stringify(value as Json), version as string, expiresAt));
  }
  return { is: 'document', document };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function damagedAt(key: string): Reading {
  return { is: 'damaged', why: `the part ${JSON.stringify(key.slice(0, 60))} makes no sense` };
}

/** The content of the file, read again only after it has been replaced. */
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

  /** The owner of the file, or undefined if there is none or it has not been read. */
  get owner(): Owner | undefined {
    return this.#stats && { uid: Number(this.#stats.uid), gid: Number(this.#stats.gid) };
  }

  /** Returns the current document of the file. */
  read(): Document {
    if (this.#broken) throw this.#broken;
    const now = this.#stat();
    // This is checked each time: the file may have been replaced, or made accessible to others, since the last check.
    if (now) checkPrivate(this.#path, { mode: Number(now.mode), uid: Number(now.uid) });
    if (this.#document && sameFile(now, this.#stats)) return this.#document;
    this.forget();
    this.#document = now ? this.#load() : emptyDocument();
    return this.#document;
  }

  /** Returns all keys in order. */
  sortedKeys(): readonly string[] {
    this.#sorted ??= [...this.read().entries.keys()].sort();
    return this.#sorted;
  }

  /** Records that the file now contains the document, which was changed in place. */
  wrote({ stats, fd }: Pinned): void {
    this.#unpin();
    this.#sorted = undefined;
    this.#stats = stats;
    this.#pin = fd;
  }

  /** Discards the document, so that the next call reads the file again. */
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
    // This handle stays broken: it must not continue as if the store were empty.
    this.#broken =
      reading.is === 'foreign' ? foreignError(this.#path, reading.why) : this.#setAside(reading.why);
    throw this.#broken;
  }

  /** Reads the file and keeps it open, so that its inode number alone tells whether it has been replaced, however soon. */
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

  /**
   * Sets the file aside under the lock, so that only one of several processes does so and none mistakes a good file for
   * the bad one.
   */
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

/** How every Valise document starts. */
const BEGINNING = /^\s*\{\s*"valise"\s*:/;

/**
 * Classifies a text. Only text that starts like a Valise document can be a damaged one; anything else belongs to
 * another program that expects it here.
 */
function readingOf(text: string): Reading {
  const reading = parseDocument(text);
  if (reading.is !== 'damaged' || BEGINNING.test(text)) return reading;
  return { is: 'foreign', why: reading.why };
}

function sameFile(one: BigIntStats | undefined, two: BigIntStats | undefined): boolean {
  if (one === undefined || two === undefined) return one === two;
  return one.ino === two.ino && one.mtimeNs === two.mtimeNs && one.size === two.size && one.dev === two.dev;
}

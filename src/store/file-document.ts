import { isObject, type Json } from '../json.ts';

/** An entry of the document, as text that needs no second writing. */
export interface Slot {
  readonly text: string;
  readonly version: string;
  /** Infinity where the entry has no end. */
  readonly expiresAt: number;
  /** The whole entry as it stands in the file. */
  readonly line: string;
}

/** Who has a lease, and until when. */
export interface Holder {
  readonly fence: number;
  readonly until: number;
}

/** All that a store file holds. */
export interface Document {
  readonly entries: Map<string, Slot>;
  readonly leases: Map<string, Holder>;
  /** The last fence given out. */
  fence: number;
}

const FORMAT = 1;

/** A document with nothing in it. */
export function emptyDocument(): Document {
  return { entries: new Map(), leases: new Map(), fence: 0 };
}

/** An entry, from its parts. */
export function slotOf(key: string, text: string, version: string, expiresAt: number): Slot {
  const end = expiresAt === Number.POSITIVE_INFINITY ? '' : `"expiresAt":${expiresAt},`;
  const line = `${JSON.stringify(key)}:{"version":${JSON.stringify(version)},${end}"value":${text}}`;
  return { text, version, expiresAt, line };
}

/** Leaves out what is over. */
export function dropExpired({ entries, leases }: Document, now: number): void {
  for (const [key, { expiresAt }] of entries) if (expiresAt <= now) entries.delete(key);
  for (const [key, { until }] of leases) if (until <= now) leases.delete(key);
}

/** The text of a document: JSON, one entry to a line. */
export function printDocument({ entries, leases, fence }: Document): string {
  const lines: string[] = [];
  for (const { line } of entries.values()) lines.push(line);
  const held = [...leases].map(
    ([key, { fence: own, until }]) => `${JSON.stringify(key)}:{"fence":${own},"until":${until}}`,
  );
  return `{"valise":${FORMAT},"fence":${fence},"leases":{${held.join(',')}},"entries":{\n${lines.join(',\n')}\n}}\n`;
}

/** What a file turned out to be. */
export type Reading =
  | { readonly is: 'document'; readonly document: Document }
  | { readonly is: 'foreign'; readonly why: string }
  | { readonly is: 'damaged'; readonly why: string };

/** Reads the text of a document, whoever wrote it. */
export function parseDocument(text: string): Reading {
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

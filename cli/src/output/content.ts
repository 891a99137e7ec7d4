import { mkdir, stat, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { ValiseError } from 'mcp-valise/client';
import { isObject } from 'mcp-valise/internal';
import { clean, print, printJson, size } from './output.ts';

/** The result of a call, a resource or a prompt. */
interface Shown {
  readonly [key: string]: unknown;
  readonly content?: unknown;
  readonly structuredContent?: unknown;
}

/** Prints the content of a result: text unchanged except for control characters; binary parts by type and size. */
export function printResult(result: Shown): void {
  const content = Array.isArray(result.content) ? result.content : [];
  for (const part of content) printPart(part);
  if (content.length === 0) printJson(result.structuredContent ?? result);
}

/** Prints one part of a result. */
export function printPart(part: unknown): void {
  const text = textOf(part);
  const binary = binaryOf(part);
  if (text !== undefined) print(clean(text, 'lines'));
  else if (binary) print(`[${clean(binary.type)}, ${size(binary.bytes.length)}; save it with --out]`);
  else printJson(part);
}

function textOf(part: unknown): string | undefined {
  const held = isObject(part) && isObject(part['resource']) ? part['resource'] : part;
  const { type = 'text', text } = isObject(held) ? held : {};
  return type === 'text' && typeof text === 'string' ? text : undefined;
}

interface Binary {
  readonly type: string;
  readonly bytes: Buffer;
  /** The last segment of a resource's URI. */
  readonly name?: string | undefined;
}

/** Returns the image, audio or blob in a part of a result or in the contents of a resource. */
function binaryOf(part: unknown): Binary | undefined {
  if (!isObject(part)) return undefined;
  const held = isObject(part['resource']) ? part['resource'] : part;
  const data = held['data'] ?? held['blob'];
  if (typeof data !== 'string') return undefined;
  return {
    type: String(held['mimeType'] ?? 'application/octet-stream'),
    bytes: Buffer.from(data, 'base64'),
    name: typeof held['uri'] === 'string' ? lastSegment(held['uri']) : undefined,
  };
}

/** Returns a safe file name. A server's URI is not a local path: only harmless characters stay, and no leading dot. */
function lastSegment(uri: string): string {
  const last =
    uri
      .split(/[?#]/, 1)[0]
      ?.split(/[/\\:]/)
      .at(-1) ?? '';
  return last
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[.-]+/, '')
    .slice(0, 100);
}

/** Saves images, audio and blobs to `out`, a directory or a file, and prints text. With `all`, it saves text too. */
export async function saveParts(
  parts: readonly unknown[],
  out: string,
  { all = false, show = true }: { readonly all?: boolean; readonly show?: boolean } = {},
): Promise<void> {
  const saved = parts.map((part): Binary | undefined => {
    const binary = binaryOf(part);
    const text = all ? textOf(part) : undefined;
    return binary ?? (text === undefined ? undefined : { type: 'text/plain', bytes: Buffer.from(text) });
  });
  const count = saved.filter((each) => each !== undefined).length;
  const isFolder = count > 1 || /[/\\]$/.test(out) || (await isDirectory(out));
  for (const [at, each] of saved.entries()) {
    if (each) {
      const path = isFolder ? await writeInto(out, each) : await writeTo(out, each.bytes);
      if (show) print(`saved ${clean(path)} (${clean(each.type)}, ${size(each.bytes.length)})`);
    } else if (show) printPart(parts[at]);
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function writeTo(path: string, bytes: Buffer, flag: 'w' | 'wx' = 'w'): Promise<string> {
  try {
    await writeFile(path, bytes, { flag });
    return path;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') throw cause;
    throw new ValiseError('not-saved', `${path} cannot be written.`, {
      next: 'Choose another file or folder with --out.',
      cause,
    });
  }
}

const MOST_NAMES = 10_000;

/** Writes a new file into a directory and never overwrites an existing one. */
async function writeInto(folder: string, { type, bytes, name }: Binary): Promise<string> {
  await mkdir(folder, { recursive: true });
  const [kind = 'file', subtype = ''] = type.toLowerCase().split(/[/;+]/);
  const ending = EXTENSIONS[subtype] ?? subtype.replace(/[^a-z0-9]/g, '');
  const given = name || `${kind.replace(/[^a-z]/g, '') || 'file'}${ending === '' ? '' : `.${ending}`}`;
  const extension = extname(given);
  const stem = given.slice(0, given.length - extension.length);
  for (let at = 1; at <= MOST_NAMES; at++) {
    const path = join(folder, at === 1 ? given : `${stem}-${at}${extension}`);
    try {
      return await writeTo(path, bytes, 'wx');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  throw new ValiseError('not-saved', `${folder} has too many files of the name ${given}.`, {
    next: 'Choose another folder with --out.',
  });
}

const EXTENSIONS: Readonly<Record<string, string>> = {
  jpeg: 'jpg',
  mpeg: 'mp3',
  plain: 'txt',
  'octet-stream': 'bin',
  svg: 'svg',
};

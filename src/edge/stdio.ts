import { type Readable, Transform } from 'node:stream';
import type { TransportLike } from '../core/instrument.ts';
import { isObject } from '../core/json.ts';
import type { Request, RpcError } from '../core/message.ts';
import { lowerText } from './drafts.ts';
import { MAX_MESSAGE, type MessageLimit, tooLargeAnswer, tooLargeError } from './limit.ts';

/** The number of bytes kept of each end of a line that is too long, to find the id in them. */
const ENDS = 256;

/**
 * Returns a stream for standard input that lowers the messages of family R. Pipe standard input through it and pass the
 * result to the `StdioServerTransport` of either SDK major. Lines without anything to lower pass unchanged.
 *
 * A line that is larger than the limit is replaced by a short one, so that its request can be answered. If it exceeds
 * twice the limit, the stream ends with an error.
 *
 * @example
 * ```ts
 * new StdioServerTransport(process.stdin.pipe(lineLowering()), process.stdout);
 * ```
 */
export function lineLowering(limit: MessageLimit = { maxBytes: MAX_MESSAGE }): Transform {
  const edge = limitLines(limit, lowerLines);
  edges.add(edge);
  return edge;
}

/** Passes on whole lines after `change`, none larger than the limit; see {@link lineLowering}. */
export function limitLines(
  limit: MessageLimit,
  change: (lines: Buffer) => Buffer | string = (lines) => lines,
): Transform {
  const { maxBytes } = limit;
  let parts: Buffer[] = [];
  let held = 0;
  const hold = (part: Buffer): void => {
    if (part.length > 0) parts.push(part);
    held += part.length;
  };
  const take = (last: Buffer): Buffer => {
    const whole = Buffer.concat([...parts, last]);
    parts = [];
    held = 0;
    return whole;
  };
  const edge = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (held + chunk.length > maxBytes) {
        done(oneByOne(chunk));
        return;
      }
      const end = chunk.lastIndexOf(0x0a) + 1;
      if (end === 0) {
        hold(chunk);
        done();
        return;
      }
      const whole = take(chunk.subarray(0, end));
      hold(chunk.subarray(end));
      done(null, change(whole));
    },
    flush(done) {
      done(null, held > 0 ? change(take(Buffer.alloc(0))) : undefined);
    },
  });
  /** Like `transform`, but line by line, for chunks in which a line may be too long. Returns the error to end with, if any. */
  const oneByOne = (chunk: Buffer): Error | null => {
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, from)) {
      const size = held + end - from;
      const line = take(chunk.subarray(from, end + 1));
      from = end + 1;
      if (size <= maxBytes) edge.push(change(line));
      else edge.push(standIn(line, limit));
    }
    hold(chunk.subarray(from));
    if (held <= maxBytes) return null;
    // The middle of the line is not needed. The line is reported once it ends, or exceeds twice the limit.
    const size = held;
    const line = take(Buffer.alloc(0));
    hold(Buffer.concat([line.subarray(0, ENDS), line.subarray(-ENDS)]));
    held = size;
    if (size <= 2 * maxBytes) return null;
    limit.exceeded?.('line', maxBytes);
    return tooLargeError('line', maxBytes, 'The client');
  };
  return edge;
}

/** Like {@link lineLowering}, for a source that is closed when the stream ends with an error. */
export function limitedLines(from: Readable, limit: MessageLimit): Readable {
  const edge = lineLowering(limit);
  edge.once('error', () => from.destroy());
  return from.pipe(edge);
}

const edges = new WeakSet<object>();

/** Whether {@link lineLowering} created the stream. */
export function isLowered(stream: unknown): boolean {
  return typeof stream === 'object' && stream !== null && edges.has(stream);
}

const STAND_IN = 'dev.valise/message-too-large';
const ID = String.raw`"id"\s*:\s*(\d{1,15}|"[ !#-[\]-~]{1,200}")`;
/** Match the id of a message if it is one of the first two members, or the last. */
const ID_FIRST = new RegExp(String.raw`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?${ID}\s*,`);
const ID_LAST = new RegExp(String.raw`,\s*${ID}\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`);

/** Returns the replacement for a line that is too long, so that nobody waits for its response. */
function standIn(line: Buffer, limit: MessageLimit): string {
  const { maxBytes } = limit;
  limit.exceeded?.('line', maxBytes);
  const head = line.subarray(0, ENDS).toString('latin1');
  const [, id] = ID_FIRST.exec(head) ?? ID_LAST.exec(line.subarray(-ENDS).toString('latin1')) ?? [];
  // The line is a notification, or a message in an order that neither SDK writes.
  if (id === undefined) return '';
  const error = JSON.stringify(tooLargeAnswer(tooLargeError('line', maxBytes, 'The client'), maxBytes));
  return /"(method|result|error)"\s*:/.exec(head)?.[1] === 'method'
    ? `{"jsonrpc":"2.0","id":${id},"method":"${STAND_IN}","params":${error}}\n`
    : `{"jsonrpc":"2.0","id":${id},"error":${error}}\n`;
}

/** Returns the error response for a request that replaces a line that was too long, or undefined for any other request. */
export function tooLargeRequest({ method, params }: Request): RpcError | undefined {
  if (method !== STAND_IN) return undefined;
  const { code, message, data } = isObject(params) ? params : {};
  return { code: Number(code), message: String(message), data };
}

const MARKS = ['"state"', '"dependent_re'].map((mark) => Buffer.from(mark));

/** Lowers whole lines. Lines without anything to lower stay unchanged. */
export function lowerLines(lines: Buffer): Buffer | string {
  if (!MARKS.some((mark) => lines.includes(mark))) return lines;
  return lines.toString('utf8').split('\n').map(lowerLine).join('\n');
}

/** Lowers one line. A line that is not JSON is left to the SDK, which reports it. */
function lowerLine(line: string): string {
  try {
    return lowerText(line);
  } catch {
    return line;
  }
}

/** Returns the standard input that a server's stdio transport of either SDK major reads, or undefined for other transports. */
export function stdinOf(transport: TransportLike): unknown {
  // Property names in both SDK majors: of standard input, and of v2's channel over it.
  const known = transport as TransportLike & {
    readonly _stdin?: unknown;
    readonly _wire?: { readonly _stdin?: unknown };
  };
  return known._stdin ?? known._wire?._stdin;
}

import { Transform } from 'node:stream';
import { lowerText } from './top.ts';

/**
 * The server's byte edge on stdio: pipe standard input through it and give the result to either major's
 * `StdioServerTransport`. Lines that hold nothing to lower pass as they came.
 *
 * @example
 * ```ts
 * new StdioServerTransport(process.stdin.pipe(lineLowering()), process.stdout);
 * ```
 */
export function lineLowering(): Transform {
  let parts: Buffer[] = [];
  const edge = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const end = chunk.lastIndexOf(0x0a) + 1;
      if (end === 0) {
        parts.push(chunk);
        done();
        return;
      }
      const whole = Buffer.concat([...parts, chunk.subarray(0, end)]);
      parts = end < chunk.length ? [chunk.subarray(end)] : [];
      done(null, lowerLines(whole));
    },
    flush(done) {
      done(null, parts.length > 0 ? lowerLines(Buffer.concat(parts)) : undefined);
    },
  });
  edges.add(edge);
  return edge;
}

const edges = new WeakSet<object>();

/** True for a stream that {@link lineLowering} made. */
export function isLowered(stream: unknown): boolean {
  return typeof stream === 'object' && stream !== null && edges.has(stream);
}

const MARKS = ['"state"', '"dependent_re'].map((mark) => Buffer.from(mark));

/** Lowers whole lines; those that hold nothing to lower stay as they are. */
export function lowerLines(lines: Buffer): Buffer | string {
  if (!MARKS.some((mark) => lines.includes(mark))) return lines;
  return lines.toString('utf8').split('\n').map(lowerLine).join('\n');
}

/** A line that is not JSON is left to the SDK, which reports it. */
function lowerLine(line: string): string {
  try {
    return lowerText(line);
  } catch {
    return line;
  }
}

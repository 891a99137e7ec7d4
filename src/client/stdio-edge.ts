import type { Writable } from 'node:stream';
import type { TransportLike } from '../core/instrument.ts';
import { restoreRaw } from '../edge/drafts.ts';
import { exceed, type MessageLimit } from '../edge/limit.ts';
import { lowerLines } from '../edge/stdio.ts';

/** The SDKs' own `StdioClientTransport`. Both majors keep these fields under the same names. */
interface SdkTransport extends TransportLike {
  readonly _readBuffer: ReadBuffer;
  readonly _process?: { readonly stdin: Writable | null };
}

/** Splits the server's output into lines, and parses each as a message. */
interface ReadBuffer {
  _buffer?: Buffer | undefined;
  readMessage(): unknown;
}

const edged = new WeakSet<TransportLike>();

/** Whether an SDK transport has our byte edge. */
export function hasStdioEdge(transport: TransportLike): boolean {
  return edged.has(transport);
}

/**
 * Adds our byte edge to an SDK stdio transport in place. The SDKs' schemas drop messages with a top-level `state`, and the
 * SDKs read lines of any length. A server that sends a line beyond the limit is closed, which ends its calls.
 */
export function addStdioEdge(transport: TransportLike, limit: MessageLimit): void {
  if (edged.has(transport) || !takesEdge(transport)) return;
  const { _readBuffer: buffer, send } = transport;
  const { readMessage } = buffer;
  let isOver = false;
  buffer.readMessage = () => {
    for (;;) {
      const whole = buffer._buffer;
      const end = whole?.indexOf(0x0a) ?? -1;
      if (!isOver && whole && (end < 0 ? whole.length : end) > limit.maxBytes) {
        isOver = true;
        transport.onerror?.(exceed(limit, 'line'));
        void transport.close();
      }
      if (isOver) buffer._buffer = undefined;
      if (isOver || !whole || end < 0) return null;
      // Passes one line at a time, because SDK v2 skips lines that are not JSON, and would read on by itself.
      const line = lowerLines(whole.subarray(0, end + 1));
      buffer._buffer = typeof line === 'string' ? Buffer.from(line) : line;
      try {
        const message = readMessage.call(buffer);
        if (message !== null) return message;
      } finally {
        buffer._buffer = whole.subarray(end + 1);
      }
    }
  };
  transport.send = (message, options) => {
    const stdin = transport._process?.stdin;
    if (!stdin || typeof (message as { readonly toJSON?: unknown }).toJSON !== 'function')
      return send.call(transport, message, options);
    return new Promise((resolve) => {
      if (stdin.write(`${restoreRaw(JSON.stringify(message))}\n`)) resolve();
      else stdin.once('drain', resolve);
    });
  };
  edged.add(transport);
}

function takesEdge(transport: TransportLike): transport is SdkTransport {
  const { _readBuffer } = transport as Partial<SdkTransport>;
  return '_serverParams' in transport && typeof _readBuffer?.readMessage === 'function';
}

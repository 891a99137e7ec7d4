import type { ServerResponse } from 'node:http';

/** Control over what an SDK writes to a response. */
export interface Diverted {
  /** Resolves with everything that was written once the writer has ended it. Only for a response that collects. */
  readonly whole: Promise<{ readonly type: string; readonly body: string }>;
  /** Takes over the response. From now on nothing that the writer writes is sent. */
  takeOver(): void;
}

/**
 * Intercepts what an SDK writes to a response, on the response object itself.
 *
 * The SDK's listeners and writing methods therefore need no replacement. `collect` holds everything back from the start.
 * `written` is called with each chunk that is sent.
 */
export function divert(
  response: ServerResponse,
  { collect, written }: { readonly collect: boolean; readonly written?: (chunk: unknown) => void },
): Diverted {
  const { writeHead, write, end, flushHeaders, setHeader } = response;
  let taken = collect;
  const parts: Buffer[] = [];
  let type = '';
  let finish: (whole: { type: string; body: string }) => void = () => {};
  const whole = new Promise<{ type: string; body: string }>((resolve) => {
    finish = resolve;
  });
  const keep = (chunk: unknown): void => {
    if (!collect) return;
    if (typeof chunk === 'string') parts.push(Buffer.from(chunk));
    else if (chunk instanceof Uint8Array) parts.push(Buffer.from(chunk));
  };
  const restore = (): void => {
    Object.assign(response, { writeHead, write, end, flushHeaders, setHeader });
  };
  Object.assign(response, {
    setHeader(name: string, value: string) {
      if (!taken) return setHeader.call(response, name, value);
      if (name.toLowerCase() === 'content-type') type = String(value);
      return response;
    },
    writeHead(...args: unknown[]) {
      if (!taken) return (writeHead as (...args: unknown[]) => ServerResponse).apply(response, args);
      type = contentTypeIn(args.at(-1)) ?? type;
      return response;
    },
    flushHeaders() {
      if (!taken) flushHeaders.call(response);
    },
    write(...args: unknown[]) {
      if (!taken) {
        written?.(args[0]);
        return (write as (...args: unknown[]) => boolean).apply(response, args);
      }
      keep(args[0]);
      callback(args);
      return true;
    },
    end(...args: unknown[]) {
      if (!taken) return (end as (...args: unknown[]) => ServerResponse).apply(response, args);
      keep(args[0]);
      callback(args);
      if (collect) restore();
      finish({ type, body: Buffer.concat(parts).toString('utf8') });
      return response;
    },
  });
  // Node's own `writeHead` sets headers one by one if there are some already.
  const ownHead = (...args: unknown[]): ServerResponse => {
    const diverted = response.setHeader;
    response.setHeader = setHeader;
    try {
      return (writeHead as (...args: unknown[]) => ServerResponse).apply(response, args);
    } finally {
      response.setHeader = diverted;
    }
  };
  const own = { writeHead: ownHead as ServerResponse['writeHead'], write, end } as const;
  return {
    whole,
    takeOver() {
      taken = true;
      ours.set(response, own);
    },
  };
}

/** The original writing methods of responses that have been taken over. */
const ours = new WeakMap<ServerResponse, Pick<ServerResponse, 'writeHead' | 'write' | 'end'>>();

export function ownWays(response: ServerResponse): Pick<ServerResponse, 'writeHead' | 'write' | 'end'> {
  return ours.get(response) ?? response;
}

function callback(args: readonly unknown[]): void {
  const last = args.at(-1);
  if (typeof last === 'function') queueMicrotask(last as () => void);
}

function contentTypeIn(headers: unknown): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined;
  for (const [name, value] of Object.entries(headers)) {
    if (name.toLowerCase() === 'content-type') return String(value);
  }
  return undefined;
}

import { type ChildProcess, spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { PassThrough, type Readable } from 'node:stream';
import { ValiseError } from '../core/errors.ts';
import type { TransportLike } from '../core/instrument.ts';
import { isObject } from '../core/json.ts';
import { type Id, INTERNAL_ERROR, isId, isRequest, METHOD_NOT_FOUND, type Message } from '../core/message.ts';
import { parseLowered, restoreRaw } from './drafts.ts';
import { MAX_MESSAGE, type MessageLimit, tooLargeError } from './limit.ts';

/** How to start a stdio server. */
export interface StdioCommand {
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  /** Added to a few harmless variables of this process, which both SDKs pass on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly stderr?: 'inherit' | 'pipe' | 'ignore';
  /** How many seconds the server may take to exit after its input ended, and again after SIGTERM. */
  readonly grace?: number;
}

/** The variables that both SDKs pass on to a stdio server. */
export const HANDED_ON: readonly string[] = [
  'HOME',
  'LOGNAME',
  'PATH',
  'SHELL',
  'TERM',
  'USER',
  'APPDATA',
  'SYSTEMROOT',
  'TEMP',
  'USERPROFILE',
];
const INHERITED = [...HANDED_ON, 'LANG', 'LC_ALL', 'TMPDIR'];
/** How long the stderr output of a server may take to arrive after its exit, in milliseconds. */
const STDERR_GRACE = 500;
/** The error that ends a call whose invalid response the SDKs would ignore while they keep waiting. */
const BAD_ANSWER = {
  code: INTERNAL_ERROR,
  message: 'The server answered with JSON that is no message of MCP.',
};

/**
 * A stdio client transport for either SDK major. The SDKs' own transport offers no access to lines before they are
 * parsed. This one lowers the messages of family R on the way in and prints them verbatim on the way out.
 */
export class StdioClientTransport implements TransportLike {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: unknown, extra?: unknown) => void) | undefined;
  sessionId?: string | undefined;
  readonly #command: StdioCommand;
  readonly #limit: MessageLimit;
  #child: ChildProcess | undefined;
  #ending: Promise<void> | undefined;
  /** The id of the probe, while the server has received nothing else and sent nothing. */
  #probe: Id | undefined;
  #spoken = false;
  #leaving = false;
  #stderr: PassThrough | undefined;
  #parts: Buffer[] = [];
  #held = 0;

  constructor(command: StdioCommand, limit: MessageLimit = { maxBytes: MAX_MESSAGE }) {
    this.#command = command;
    this.#limit = limit;
    // There is one stream from the start, even if the process behind it is replaced.
    if (command.stderr === 'pipe') this.#stderr = new PassThrough();
  }

  /**
   * The property name that both SDKs use. It is not a field, because its variables may be secrets that must not be
   * shown with the transport.
   */
  get _serverParams(): StdioCommand {
    return this.#command;
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  get stderr(): Readable | null {
    return this.#stderr ?? null;
  }

  start(): Promise<void> {
    if (this.#child) {
      return Promise.reject(new ValiseError('already-connected', 'This stdio server is running already.'));
    }
    this.#spoken = false;
    this.#leaving = false;
    return this.#spawn();
  }

  #spawn(): Promise<void> {
    const { command, args = [], cwd, env, stderr = 'inherit' } = this.#command;
    return new Promise((resolve, reject) => {
      const child = platformSpawn()(command, [...args], {
        cwd,
        env: { ...inheritedEnv(), ...env },
        stdio: ['pipe', 'pipe', stderr],
        windowsHide: true,
      });
      this.#child = child;
      child.once('spawn', resolve);
      child.once('error', (error) => {
        const failure = new ValiseError(
          'server-unreachable',
          `The server "${command}" could not be started: ${error.message}.`,
          {
            next: 'Check that the command exists and may be run.',
            cause: error,
          },
        );
        reject(failure);
        this.onerror?.(failure);
      });
      child.once('close', () => {
        this.#child = undefined;
        this.#ending = undefined;
        this.#forget();
        const probe = this.#probe;
        this.#probe = undefined;
        if (probe === undefined || this.#leaving) this.onclose?.();
        else this.#afterProbe(probe);
      });
      child.stdin?.on('error', (error) => this.onerror?.(error));
      child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk));
      // No response can arrive after this. Most servers are about to exit, and calls must not wait for one that keeps running.
      child.stdout?.once('end', () => void this.#end(child));
      if (!this.#stderr) return;
      child.stderr?.pipe(this.#stderr, { end: false });
      // A process that the server leaves behind may hold its stderr open forever.
      child.once('exit', () => setTimeout(() => child.stderr?.destroy(), STDERR_GRACE).unref());
    });
  }

  /**
   * Restarts a server that exited on the probe. Older servers exit if the first message is not `initialize`, and a
   * client that supports both eras sends `server/discover` first. The client receives the response that other older
   * servers send.
   */
  #afterProbe(id: Id): void {
    this.#spawn().then(
      () =>
        this.onmessage?.({
          jsonrpc: '2.0',
          id,
          error: { code: METHOD_NOT_FOUND, message: 'Method not found' },
        }),
      () => this.onclose?.(),
    );
  }

  send(message: Message): Promise<void> {
    const stdin = this.#child?.stdin;
    if (!stdin?.writable) {
      return Promise.reject(
        new ValiseError('not-connected', 'The stdio server is not running.', { next: 'Connect again.' }),
      );
    }
    const probing = !this.#spoken && isRequest(message) && message.method === 'server/discover';
    this.#probe = probing ? message.id : undefined;
    this.#spoken ||= !probing;
    return new Promise((resolve) => {
      if (stdin.write(`${restoreRaw(JSON.stringify(message))}\n`)) resolve();
      else stdin.once('drain', resolve);
    });
  }

  async close(): Promise<void> {
    this.#leaving = true;
    if (this.#child) await this.#end(this.#child);
  }

  #end(child: ChildProcess): Promise<void> {
    this.#ending ??= new Promise((resolve) => {
      const grace = (this.#command.grace ?? 2) * 1000;
      const timers = [
        setTimeout(() => this.#dismiss(child), grace),
        setTimeout(() => child.kill('SIGKILL'), 2 * grace),
      ];
      child.once('close', () => {
        for (const timer of timers) clearTimeout(timer);
        resolve();
      });
      child.stdin?.end();
    });
    return this.#ending;
  }

  #dismiss(child: ChildProcess): void {
    child.kill('SIGTERM');
    if (this.#leaving) return;
    const what = `The server "${this.#command.command}" has closed its output, so no answer can come; it is being ended.`;
    this.onerror?.(new ValiseError('not-connected', what, { next: 'Connect again.' }));
  }

  #read(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, from)) {
      const line = this.#take(chunk.subarray(from, end));
      from = end + 1;
      if (line !== '') this.#receive(line);
    }
    if (from < chunk.length) this.#hold(chunk.subarray(from));
  }

  #take(last: Buffer): string {
    const line = this.#parts.length > 0 ? Buffer.concat([...this.#parts, last]) : last;
    this.#forget();
    return line.toString('utf8').trimEnd();
  }

  #hold(part: Buffer): void {
    this.#held += part.length;
    this.#parts.push(part);
    const { maxBytes } = this.#limit;
    if (this.#held <= maxBytes) return;
    this.#forget();
    this.#limit.exceeded?.('line', maxBytes);
    this.onerror?.(tooLargeError('line', maxBytes, `The server "${this.#command.command}"`));
    // It is unknown which call the line answers, so all of them end.
    this.#child?.stdout?.destroy();
    void this.close();
  }

  #forget(): void {
    this.#parts = [];
    this.#held = 0;
  }

  #receive(line: string): void {
    this.#spoken = true;
    this.#probe = undefined;
    try {
      const message = parseLowered(line);
      this.onmessage?.(
        isBadAnswer(message) ? { jsonrpc: '2.0', id: message.id, error: BAD_ANSWER } : message,
      );
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

/** Whether the message answers a request but is neither a result nor an error. */
function isBadAnswer(message: unknown): message is { readonly id: Id } {
  if (!isObject(message) || message['method'] !== undefined || !isId(message['id'])) return false;
  const { jsonrpc, result, error } = message;
  const isError = isObject(error) && Number.isInteger(error['code']) && typeof error['message'] === 'string';
  return jsonrpc !== '2.0' || !(isObject(result) || isError);
}

function inheritedEnv(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of INHERITED) {
    const value = process.env[name];
    // A value that starts with `()` is a function of an old shell, and is never passed on.
    if (value !== undefined && !value.startsWith('()')) env[name] = value;
  }
  return env;
}

/** The modules of both SDK majors that start stdio servers. Each depends on cross-spawn. */
const SDK_CLIENTS = ['@modelcontextprotocol/client', '@modelcontextprotocol/sdk/client/index.js'];

/**
 * Returns the function that starts a process. Windows needs cross-spawn for commands such as `npx`, which are scripts.
 * It is loaded from the installed SDK, so that the library needs no copy. Without it, executables still start.
 */
function platformSpawn(): typeof spawn {
  if (process.platform !== 'win32') return spawn;
  for (const sdk of SDK_CLIENTS) {
    try {
      const client = createRequire(import.meta.url).resolve(sdk);
      return createRequire(client)('cross-spawn') as typeof spawn;
    } catch {
      // The SDK is not installed, or this is a bundle in which packages cannot be resolved.
    }
  }
  return spawn;
}

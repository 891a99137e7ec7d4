import { randomBytes } from 'node:crypto';
import type { Notification, Params, Response, Result } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import type { HttpTransport } from '../http.ts';
import type { Snapshot, SnapshotKeeper } from './snapshot.ts';

/** How one HTTP connection goes on where an earlier process was, and what it leaves for the next one. */
export class Continuity {
  readonly #keeper: SnapshotKeeper;
  readonly #transport: HttpTransport;
  /** Ids of a new process start at 0 again: with this before them, no late answer of the old one is taken for ours. */
  readonly #epoch = randomBytes(6).toString('base64url');
  readonly #onRenewed: () => void;
  #resuming: Snapshot | undefined;
  #resumed: boolean;
  #snapshot: Snapshot | undefined;
  #initialize: Params | undefined;
  #renewal: Promise<boolean> | undefined;

  constructor(
    transport: HttpTransport,
    keeper: SnapshotKeeper,
    kept: Snapshot | undefined,
    onRenewed: () => void,
  ) {
    this.#transport = transport;
    this.#keeper = keeper;
    this.#resuming = kept;
    this.#snapshot = kept;
    this.#resumed = kept !== undefined;
    this.#onRenewed = onRenewed;
    if (kept?.era === 'legacy') this.#hideSession();
  }

  /** The session that this connection went on in, or began. */
  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /** Both SDKs skip `initialize` where the transport has a session, and are then left without the server's capabilities. */
  #hideSession(): void {
    const inherited = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(this.#transport), 'sessionId');
    Object.defineProperty(this.#transport, 'sessionId', {
      configurable: true,
      get: () => (this.#resuming ? undefined : inherited?.get?.call(this.#transport)),
    });
  }

  outbound(call: Call): void {
    if (this.#resumed && typeof call.request.id === 'number') this.#markEpoch(call);
    if (call.method === 'initialize') this.#initializing(call);
    else if (call.method === 'server/discover')
      call.whenAnswered((response) => this.#introduced(call, response));
  }

  #markEpoch(call: Call): void {
    call.wireId = `${this.#epoch}:${call.request.id}`;
    const token = call.request.params?._meta?.['progressToken'];
    if (typeof token === 'number') call.addMeta({ progressToken: `${this.#epoch}:${token}` });
  }

  #initializing(call: Call): void {
    this.#initialize = call.request.params;
    if (this.#resuming) call.answerWith(this.#resuming.introduction);
    else call.whenAnswered((response) => this.#introduced(call, response));
  }

  async #introduced(call: Call, response: Response): Promise<Response> {
    if (!('result' in response)) return response;
    const { result } = response;
    const version =
      result['protocolVersion'] ?? call.request.params?._meta?.['io.modelcontextprotocol/protocolVersion'];
    const { sessionId } = this.#transport;
    this.#snapshot = {
      era: call.era,
      introduction: withoutMeta(result),
      protocolVersion: String(version),
      savedAt: Date.now(),
      ...(call.era === 'legacy' && sessionId !== undefined && { sessionId }),
    };
    await this.#keeper.save(this.#snapshot);
    return response;
  }

  /** The server has had its `initialized` from the earlier process; what it does not have any more is our stream. */
  notifying(notification: Notification): boolean {
    if (!this.#resuming || notification.method !== 'notifications/initialized') return false;
    const { lastEventId = '' } = this.#resuming;
    this.#resuming = undefined;
    this.#transport.resumeStream(lastEventId).catch((error: Error) => this.#transport.onerror?.(error));
    return true;
  }

  notified(notification: Notification, connection: Connection): boolean {
    const token = notification.params?.['progressToken'];
    if (notification.method !== 'notifications/progress' || typeof token !== 'string') return false;
    if (!token.startsWith(`${this.#epoch}:`)) return false;
    const own = Number(token.slice(this.#epoch.length + 1));
    connection.link.deliver({ ...notification, params: { ...notification.params, progressToken: own } });
    return true;
  }

  /** 404 means that the session is over and the call was not taken: one new `initialize`, then the call once more. */
  async undelivered(call: Call, error: unknown): Promise<boolean> {
    const { snapshot } = this;
    if (statusOf(error) !== 404 || snapshot?.sessionId === undefined || call.method === 'initialize')
      return false;
    this.#renewal ??= this.#renew(call.connection, snapshot).finally(() => {
      this.#renewal = undefined;
    });
    return this.#renewal;
  }

  async #renew(connection: Connection, gone: Snapshot): Promise<boolean> {
    await this.#keeper.clear(gone);
    const result = await connection.request('initialize', this.#initialize ?? {});
    this.#transport.setProtocolVersion(String(result['protocolVersion']));
    await connection.link.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    this.#onRenewed();
    return true;
  }

  /** Remembers how far the standalone stream has been read. */
  async streamRead(lastEventId: string): Promise<void> {
    if (this.#snapshot) await this.#keeper.update(this.#snapshot, { lastEventId });
  }
}

/** State and sessions in the result's `_meta` were for the process that got it. */
function withoutMeta({ _meta: _, ...result }: Result): Result {
  return result;
}

/** The HTTP status in an error of either major. */
export function statusOf(error: unknown): number | undefined {
  const { code, data } = (error ?? {}) as {
    readonly code?: unknown;
    readonly data?: { readonly status?: unknown };
  };
  if (typeof data?.status === 'number') return data.status;
  return typeof code === 'number' && code >= 100 && code < 600 ? code : undefined;
}

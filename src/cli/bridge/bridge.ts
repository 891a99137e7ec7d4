import { CORE, FIRST_MODERN_VERSION, isRequest, type Message, type Request } from '../../wire/index.ts';
import { OlderHost } from './older-host.ts';

type Send = (message: Message) => void;

/** A request that only this bridge knows of: does the server speak the newer era? */
const PROBE = 'valise-probe';

/**
 * Lets a host and a server talk: message for message where they speak the same era, translated where the host begins
 * with `initialize` and the server turns out to know only the newer era. A newer host falls back by itself.
 */
export class Bridge {
  readonly #toHost: Send;
  readonly #toServer: Send;
  #older: OlderHost | undefined;
  #initialize: Request | undefined;
  #refusal: Message | undefined;
  readonly #held: Message[] = [];

  constructor(toHost: Send, toServer: Send) {
    this.#toHost = toHost;
    this.#toServer = toServer;
  }

  fromHost(message: Message): void {
    if (this.#refusal) this.#held.push(message);
    else if (this.#older) this.#older.fromHost(message);
    else {
      if (isRequest(message) && message.method === 'initialize') this.#initialize = message;
      this.#toServer(message);
    }
  }

  fromServer(message: Message): void {
    if (this.#older) this.#older.fromServer(message);
    else if (!('method' in message) && message.id === PROBE) this.#probed('result' in message);
    else if (this.#initialize && !('method' in message) && message.id === this.#initialize.id)
      this.#initialized(message);
    else this.#toHost(message);
  }

  #initialized(message: Message): void {
    if ('error' in message) {
      this.#refusal = message;
      const meta = { [CORE.protocolVersion]: FIRST_MODERN_VERSION, [CORE.clientCapabilities]: {} };
      this.#toServer({ jsonrpc: '2.0', id: PROBE, method: 'server/discover', params: { _meta: meta } });
      return;
    }
    this.#initialize = undefined;
    this.#toHost(message);
  }

  #probed(newer: boolean): void {
    const refusal = this.#refusal as Message;
    const initialize = this.#initialize as Request;
    this.#refusal = undefined;
    this.#initialize = undefined;
    if (newer) {
      this.#older = new OlderHost(this.#toHost, this.#toServer);
      this.#older.fromHost(initialize);
    } else this.#toHost(refusal);
    for (const message of this.#held.splice(0)) this.fromHost(message);
  }
}

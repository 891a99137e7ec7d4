import type { JsonObject } from '../json.ts';
import {
  type Announced,
  announceClient,
  CORE,
  type Families,
  type Meta,
  mergeCapabilities,
  NAMES,
  type Request,
  type Result,
} from '../wire/index.ts';

const ENVELOPE = [CORE.protocolVersion, CORE.clientCapabilities, CORE.clientInfo];

/** What an SDK v2 client has for making the envelope of its requests; on the older era it makes none. */
interface Enveloping {
  _outboundMetaEnvelope?(): Meta | undefined;
}

/** Says on the wire what this client can do, where the era and the server want to hear it. */
export class Announcer {
  readonly #capabilities: JsonObject;
  #own: JsonObject | undefined;
  #introduction: Meta | undefined;
  #envelope: Meta | undefined;
  #client: Enveloping | undefined;
  #merged: { readonly own: JsonObject; readonly all: JsonObject } | undefined;

  constructor(families: Families) {
    this.#capabilities = announceClient(families);
  }

  /** What modern requests carry besides their own `_meta`, as the SDK last wrote it, or as it would. */
  get envelope(): Meta | undefined {
    return this.#envelope ?? this.#client?._outboundMetaEnvelope?.();
  }

  /** Says whose requests these are: of a client that went on from an earlier process, none may have gone out yet. */
  speakFor(client: object): void {
    this.#client = client;
  }

  /**
   * The request with what it has to say: `initialize` and modern requests name the client's capabilities by themselves,
   * and get ours added. Others introduce the client where the server has no session to remember it by.
   */
  announce(request: Request, remembered: boolean): Request {
    const { params } = request;
    if (request.method === 'initialize') {
      // A probe in the other era may have come before.
      this.#envelope = undefined;
      this.#own = params?.['capabilities'] as JsonObject | undefined;
      const capabilities = mergeCapabilities(this.#own, this.#capabilities);
      return { ...request, params: { ...params, capabilities } };
    }
    const meta = params?._meta;
    const own = meta?.[CORE.clientCapabilities];
    if (meta && own !== undefined) {
      const capabilities = this.#withOurs(own as JsonObject);
      this.#envelope ??= Object.fromEntries(
        ENVELOPE.filter((key) => key in meta).map((key) => [key, meta[key]]),
      );
      return {
        ...request,
        params: { ...params, _meta: { ...meta, [CORE.clientCapabilities]: capabilities } },
      };
    }
    if (!this.#introduction || remembered) return request;
    return { ...request, params: { ...params, _meta: { ...meta, ...this.#introduction } } };
  }

  /** The SDK names the same capabilities with every request. */
  #withOurs(own: JsonObject): JsonObject {
    if (own !== this.#merged?.own) this.#merged = { own, all: mergeCapabilities(own, this.#capabilities) };
    return this.#merged.all;
  }

  /**
   * The server has answered `initialize`. Over HTTP each later request may reach an instance that has not seen it; one that
   * has any of our families then wants the introduction with each.
   */
  initialized({ protocolVersion }: Result, { state, sessions, rounds }: Announced): void {
    this.#introduction = undefined;
    if (!state && !sessions && rounds.length === 0) return;
    const { extensions = {} } = this.#capabilities;
    // It goes with every request, so nothing in it is said twice.
    const capabilities = mergeCapabilities(this.#own, { extensions });
    this.#introduction = { [NAMES.legacy.introduction]: { protocolVersion, capabilities } };
  }
}

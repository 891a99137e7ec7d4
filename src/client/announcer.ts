import { isObject, type JsonObject } from '../core/json.ts';
import {
  announceClient,
  CORE,
  type Families,
  knowsExtensions,
  type Meta,
  mergeCapabilities,
  NAMES,
  type Request,
  type Result,
  readAnnounced,
} from '../wire/index.ts';

/** The capabilities with which a client allows requests from the server. */
const ASKABLE = ['elicitation', 'sampling', 'roots'];

const ENVELOPE = [CORE.protocolVersion, CORE.clientCapabilities, CORE.clientInfo];

/** The method with which an SDK v2 client builds the envelope of its requests. In the legacy era it returns none. */
interface Enveloping {
  _outboundMetaEnvelope?(): Meta | undefined;
}

/** Announces the client's capabilities on the wire, as the era and the server require. */
export class Announcer {
  readonly #families: Families;
  readonly #capabilities: JsonObject;
  /** The capabilities to add to every request. A server that knows our extensions is told nothing twice. */
  #repeated: JsonObject;
  #own: JsonObject | undefined;
  #introduction: Meta | undefined;
  #envelope: Meta | undefined;
  #client: Enveloping | undefined;
  #merged: { readonly own: JsonObject; readonly all: JsonObject } | undefined;

  constructor(families: Families) {
    this.#families = families;
    this.#capabilities = announceClient(families);
    this.#repeated = this.#capabilities;
  }

  /** The members that modern requests carry besides their own `_meta`, as the SDK last wrote them or would write them. */
  get envelope(): Meta | undefined {
    return this.#envelope ?? this.#client?._outboundMetaEnvelope?.();
  }

  /**
   * Whether a server may send requests to the client. False only if the client has announced its capabilities and none allows it.
   */
  get isAskable(): boolean {
    const own = this.#own ?? this.envelope?.[CORE.clientCapabilities];
    return !isObject(own) || ASKABLE.some((capability) => own[capability] !== undefined);
  }

  /** Sets the client that sends the requests. A client that resumed a session may not have sent any yet. */
  speakFor(client: object): void {
    this.#client = client;
  }

  /**
   * Returns the request with the announcement. `initialize` and modern requests name the client's capabilities themselves,
   * and ours are added. Other requests introduce the client if the server has no session to remember it by.
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
    const own = meta?.[CORE.clientCapabilities] as JsonObject | undefined;
    if (meta && own !== undefined) {
      this.#own = own;
      const capabilities = this.#withOurs(own);
      this.#envelope ??= Object.fromEntries(
        ENVELOPE.filter((key) => key in meta).map((key) => [key, meta[key]]),
      );
      const announced = { ...meta, [CORE.clientCapabilities]: capabilities };
      return { ...request, params: { ...params, _meta: announced } };
    }
    if (!this.#introduction || remembered) return request;
    const introduced = meta ? { ...meta, ...this.#introduction } : this.#introduction;
    return { ...request, params: { ...params, _meta: introduced } };
  }

  /** Merges and caches the capabilities, because the SDK sends the same ones with every request. */
  #withOurs(own: JsonObject): JsonObject {
    if (own !== this.#merged?.own) this.#merged = { own, all: mergeCapabilities(own, this.#repeated) };
    return this.#merged.all;
  }

  /**
   * Reads how the server introduces itself. Over HTTP, each later request may reach an instance that has not seen
   * `initialize`. An instance that knows our extensions then needs the introduction with each request.
   */
  hear(method: string, { capabilities: theirs, protocolVersion }: Result): void {
    const isKnown = knowsExtensions(theirs);
    const isOlder = method === 'initialize';
    if (isKnown) {
      const told = isOlder ? this.#families : usefulTo(theirs, this.#families);
      const { extensions = {} } = announceClient(told);
      this.#repeated = { extensions };
    } else this.#repeated = this.#capabilities;
    this.#merged = undefined;
    this.#introduction = undefined;
    if (!isKnown || !isOlder) return;
    const capabilities = mergeCapabilities(this.#own, this.#repeated);
    this.#introduction = { [NAMES.legacy.introduction]: JSON.stringify({ protocolVersion, capabilities }) };
  }
}

/**
 * Returns the families that a 2026-07-28 server can use. It checks everything that requests say, and has its own way to ask back.
 */
function usefulTo(theirs: unknown, { state = false, sessions = false, expiry = false }: Families): Families {
  const { sessions: hasSessions, rounds, unsupported } = readAnnounced(theirs);
  return {
    state: state && !unsupported?.state,
    sessions: sessions && hasSessions,
    expiry: expiry && rounds.length > 0,
  };
}

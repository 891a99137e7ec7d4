import { isObject, type JsonObject } from '../json.ts';
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

/** By what a client says that a server may ask it something. */
const ASKABLE = ['elicitation', 'sampling', 'roots'];

const ENVELOPE = [CORE.protocolVersion, CORE.clientCapabilities, CORE.clientInfo];

/** What an SDK v2 client has for making the envelope of its requests; on the older era it makes none. */
interface Enveloping {
  _outboundMetaEnvelope?(): Meta | undefined;
}

/** Says on the wire what this client can do, where the era and the server want to hear it. */
export class Announcer {
  readonly #families: Families;
  readonly #capabilities: JsonObject;
  /** What goes with every request: to a server that knows our extensions, nothing is said twice. */
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

  /** What modern requests carry besides their own `_meta`, as the SDK last wrote it, or as it would. */
  get envelope(): Meta | undefined {
    return this.#envelope ?? this.#client?._outboundMetaEnvelope?.();
  }

  /** False where the client has said what it can do, and nothing of it is to be asked. */
  get isAskable(): boolean {
    const own = this.#own ?? this.envelope?.[CORE.clientCapabilities];
    return !isObject(own) || ASKABLE.some((capability) => own[capability] !== undefined);
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

  /** The SDK names the same capabilities with every request. */
  #withOurs(own: JsonObject): JsonObject {
    if (own !== this.#merged?.own) this.#merged = { own, all: mergeCapabilities(own, this.#repeated) };
    return this.#merged.all;
  }

  /**
   * Hears how the server introduces itself. Over HTTP each later request may reach an instance that has not seen
   * `initialize`; one that knows our extensions then wants the introduction with each.
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

/** What a server of 2026-07-28 can make use of: it checks all that requests say, and has a way of its own to ask back. */
function usefulTo(theirs: unknown, { state = false, sessions = false, expiry = false }: Families): Families {
  const { sessions: hasSessions, rounds } = readAnnounced(theirs);
  return { state, sessions: sessions && hasSessions, expiry: expiry && rounds.length > 0 };
}

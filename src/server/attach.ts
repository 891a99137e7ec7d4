import { randomBytes } from 'node:crypto';
import type { Middleware } from '../core/compose.ts';
import type { TransportLike } from '../core/instrument.ts';
import type { JsonObject } from '../core/json.ts';
import { lazy } from '../core/lazy.ts';
import { Link } from '../core/link.ts';
import { type Top, takeTop } from '../edge/drafts.ts';
import { stdinOf, tooLargeRequest } from '../edge/stdio.ts';
import { type Family, familiesUsed, unsupportedVersions } from '../wire/extension-version.ts';
import {
  announceServer,
  type Families,
  type Id,
  INTRODUCTIONS,
  isRequest,
  type Message,
  type Meta,
  mergeCapabilities,
  type Notification,
  type Request,
  type Response,
  type RpcError,
} from '../wire/index.ts';
import type { TellCaller } from './caller.ts';
import { type EdgeContext, takeEdgeContext } from './edge-context.ts';
import {
  currentExchange,
  Exchange,
  type ServerLink,
  type ServerMiddleware,
  ServerQuestion,
} from './exchange.ts';
import { type Fault, MAX_UNDER_WAY, tooManyNotifications, tooManyRequests, withoutAdvice } from './fault.ts';
import { isHttp, type Peer, peerOf, STRANGER, withoutIntroduction } from './peer.ts';
import { authInfoOf, type TellPrincipal } from './principal.ts';
import { asRequest, isInRequest } from './request-store.ts';
import { configOf, handles, hasToolWith, type ServerLike, type ToolFacts, toolOf } from './sdk-server.ts';

/** State and callbacks that all links of all servers of one Valise share. */
export interface Attachment {
  readonly owner: object;
  /** The middlewares that requests pass through, outermost first. */
  readonly stack: readonly ServerMiddleware[];
  /** Whether a middleware answers the request itself, although the server has no handler for it. */
  answers(exchange: Exchange): boolean;
  /** Returns the capabilities that the server announces to the client. */
  families(introduction: Exchange): Families;
  /** Returns the notification to send to the client, or undefined to drop it. */
  notifying(
    notification: Notification,
    exchange: Exchange | undefined,
    link: ServerLink,
  ): Notification | undefined;
  /** The middlewares that requests of the server to the client pass through, outermost first. */
  readonly outgoing: readonly Middleware<ServerQuestion, Response>[];
  /** Handles a response that nobody in this process waits for. Returns true if it was accepted. */
  answered(response: Response, top: Top | undefined, link: ServerLink, extra: unknown): boolean;
  readonly principalOf: TellPrincipal;
  readonly tellCaller: TellCaller | undefined;
  /** Turns an error in a middleware into a response, since the client must get one in any case. */
  readonly fault: Fault;
}

/** Identifies this process. With a counter it names a link, at no cost for the many links that live for one request. */
const processName = lazy(() => randomBytes(12).toString('base64url'));
let links = 0;

/**
 * Inserts the middlewares between a transport and the server that connects to it. The transport stays the same object. A
 * stateless server creates one per request.
 */
export class AttachedServer extends Link<Exchange, ServerQuestion, Top> implements ServerLink {
  readonly tellCaller: TellCaller | undefined;
  readonly #server: ServerLike;
  readonly #attachment: Attachment;
  readonly #number = ++links;
  #known: Peer = STRANGER;
  #closing: AbortController | undefined;
  #isClosed = false;

  constructor(server: ServerLike, transport: TransportLike, attachment: Attachment) {
    super(transport, {
      owner: attachment.owner,
      incoming: attachment.stack,
      outgoing: attachment.outgoing,
      setOnce: true,
    });
    this.#server = server;
    this.#attachment = attachment;
    this.tellCaller = attachment.tellCaller;
  }

  config(request: Request): Meta | undefined {
    return configOf(this.#server, request);
  }

  hasToolWith(key: string): boolean {
    return hasToolWith(this.#server, key);
  }

  tool(name: string): ToolFacts | undefined {
    return toolOf(this.#server, name);
  }

  get closed(): AbortSignal {
    this.#closing ??= new AbortController();
    if (this.#isClosed) this.#closing.abort();
    return this.#closing.signal;
  }

  override ended(): void {
    super.ended();
    this.#isClosed = true;
    this.#closing?.abort();
  }

  protected decode = takeTop;

  override receive(message: Message, extra?: unknown): void {
    if (isRequest(message) || !this.#isLost(extra)) super.receive(message, extra);
  }

  /** Whether a message that expects no response names an unknown transport session. The edge then reports it. */
  #isLost(extra: unknown): boolean {
    const edgeContext = takeEdgeContext(this.owner, this.#number, extra);
    return edgeContext?.foreignSession?.check(this.transport.sessionId !== undefined) !== undefined;
  }

  protected requested(message: Request, top: Top | undefined, extra: unknown): void {
    const edgeContext = takeEdgeContext(this.owner, this.#number, extra, message.id);
    const exchange = this.#exchangeFor(message, top, extra, edgeContext);
    if (!(exchange instanceof Exchange)) {
      void this.respond({ edgeContext }, { jsonrpc: '2.0', id: message.id, error: exchange });
      return;
    }
    const { unsupported } = exchange.peer.families;
    const refusal = unsupported && versionRefusal(exchange, unsupported);
    if (refusal) {
      void this.respond(exchange, refusal);
      return;
    }
    // The SDK responds immediately that it does not know the method, and the HTTP status depends on that. If two requests share
    // an id, which violates the protocol, the second one bypasses the middlewares. A call that continues from an answer has the id
    // of the call that asked, which may not have ended yet.
    const { isHandled } = exchange;
    const other = this.handling.get(message.id);
    const isRepeated = other !== undefined && other.round === undefined;
    if ((!isHandled && !this.#attachment.answers(exchange)) || isRepeated) {
      this.deliver(exchange.request, extra);
      return;
    }
    // A request that never reaches the SDK holds nothing back.
    const serve = (): Promise<void> => this.serve(exchange, isHandled);
    // A message that came through the HTTP edge is already part of a request.
    void (edgeContext && isInRequest() ? serve() : asRequest(serve));
  }

  /** Returns the exchange for a request, or the error that refuses it. */
  #exchangeFor(
    message: Request,
    top: Top | undefined,
    extra: unknown,
    edgeContext: EdgeContext | undefined,
  ): Exchange | RpcError {
    const { fault, principalOf } = this.#attachment;
    if (this.handling.size >= MAX_UNDER_WAY) return fault(tooManyRequests());
    const isFirst = message.method === 'initialize';
    const isKnown = isFirst || this.transport.sessionId !== undefined;
    const refused = tooLargeRequest(message) ?? edgeContext?.foreignSession?.check(isKnown);
    if (refused) return refused;
    const peer = peerOf(message, edgeContext?.peer ?? this.#known);
    if (isFirst) this.#known = peer;
    const params = withoutIntroduction(message.params);
    const isLocal = !isHttp(extra) && stdinOf(this.transport) !== undefined;
    try {
      return new Exchange(this, {
        request: params === message.params ? message : { ...message, params },
        top,
        extra,
        edgeContext,
        peer,
        principal: principalOf(authInfoOf(extra), extra, isLocal),
        transportSession:
          this.transport.sessionId ??
          edgeContext?.transportSession ??
          (isHttp(extra) ? undefined : `link:${this.#name}`),
        isHandled: handles(this.#server, message.method),
      });
    } catch (error) {
      return fault(error);
    }
  }

  protected override async handle(exchange: Exchange): Promise<Response> {
    const given = await super.handle(exchange);
    const response = exchange.errors ? withoutAdvice(exchange, given, this.#attachment.fault) : given;
    return INTRODUCTIONS.has(exchange.method) ? this.#introducing(exchange, response) : response;
  }

  protected failed(exchange: Exchange, error: unknown): Response {
    const otherwise = exchange.runs === 0 ? 'not-done' : 'unknown';
    return exchange.respond({ error: this.#attachment.fault(error, otherwise) });
  }

  protected override async respond(
    { edgeContext }: Pick<Exchange, 'edgeContext'>,
    response: Response,
  ): Promise<void> {
    edgeContext?.sent?.(response);
    try {
      await this.send(response);
    } catch (error) {
      this.transport.onerror?.(error as Error);
    }
  }

  protected notified(notification: Notification, extra: unknown): void {
    this.deliver(notification, extra);
  }

  protected overflowed(): void {
    this.#attachment.fault(tooManyNotifications());
  }

  protected override notifying(notification: Notification, options: unknown): Notification | undefined {
    const passed = this.#attachment.notifying(notification, currentExchange(this), this);
    if (passed) this.#sendingFor(passed, options);
    return passed;
  }

  protected override transmit(question: ServerQuestion): Promise<void> {
    const message = question.outgoing();
    this.#sendingFor(message, question.options);
    return this.send(message, question.options);
  }

  /** Reports what a call sends before its response to the HTTP edge, which may have to send it again. */
  #sendingFor(message: Message, options: unknown): void {
    const { relatedRequestId } = (options ?? {}) as { readonly relatedRequestId?: Id };
    if (relatedRequestId !== undefined) this.handling.get(relatedRequestId)?.edgeContext?.sent?.(message);
  }

  protected requesting(request: Request, options: unknown): ServerQuestion | undefined {
    // A flow's own questions have ids that are unique already, and their answers may come to another link.
    if (typeof request.id !== 'number') {
      this.#sendingFor(request, options);
      return undefined;
    }
    const question = new ServerQuestion(request, this.#name);
    question.options = options;
    return question;
  }

  protected answered(): void {}

  protected override unmatched(response: Response, top: Top | undefined, extra: unknown): void {
    if (!this.#attachment.answered(response, top, this, extra)) this.deliver(response, extra);
  }

  /** A name for the link that is unique among all instances. */
  get #name(): string {
    this.#named ??= `${processName()}${this.#number.toString(36)}`;
    return this.#named;
  }

  #named: string | undefined;

  /** Adds what Valise announces to the introduction of the server. */
  #introducing(exchange: Exchange, response: Response): Response {
    if (!('result' in response)) return response;
    const own = response.result['capabilities'] as JsonObject | undefined;
    const capabilities = announceServer(this.#attachment.families(exchange));
    return {
      ...response,
      result: { ...response.result, capabilities: mergeCapabilities(own, capabilities) },
    };
  }
}

/**
 * Returns the refusal of a request that uses an extension in a major version that this release does not support. Other
 * requests of such a client are handled as if it had not announced the extension.
 */
function versionRefusal(
  exchange: Exchange,
  unsupported: Partial<Readonly<Record<Family, string>>>,
): Response | undefined {
  const used = familiesUsed(exchange.method, exchange.request.params).flatMap((family) => {
    const version = unsupported[family];
    return version === undefined ? [] : [[family, version] as const];
  });
  if (used.length === 0) return undefined;
  return exchange.respond({ error: unsupportedVersions(Object.fromEntries(used)) });
}

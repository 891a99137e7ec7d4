import { isResponse, type Message } from '../../wire/index.ts';
import { QUESTION_PARAMETER } from '../carriers/fallback.ts';
import { type Asking, type EdgeContext, runWithEdgeContext } from '../edge-context.ts';
import { REFUSED } from '../flows/flows.ts';
import type { AuthInfo } from '../principal.ts';
import { asRequest } from '../request-store.ts';
import { isJson, mayBeMcp, peekWebText, publicUrl, withBody } from './body.ts';
import { MAX_FORM, questionIn, serveQuestion } from './question-page.ts';
import { type Edge, errorBody, type Inbound, type Route, routeOf } from './route.ts';
import { type EventStream, eventStream, SSE_HEADERS, UnsentMessages } from './sse.ts';
import { NOT_FOUND } from './transport-session.ts';

/** The options that the SDKs' web-standard handlers take besides the request. */
export interface FetchOptions {
  readonly authInfo?: unknown;
  readonly parsedBody?: unknown;
}

/** A web-standard handler: `createMcpHandler(…).fetch` of v2, or `transport.handleRequest` of either major. */
export type FetchFunction = (
  request: Request,
  options?: FetchOptions,
  ...rest: never[]
) => Response | Promise<Response>;

/** Runs the handler behind the edge with a body, in what the edge knows about the request. */
type Handle = (body: unknown, edgeContext: EdgeContext) => Promise<Response>;

/** Writes the events of a response. */
type Deliver = (stream: EventStream) => Promise<void>;

/** Creates the web-standard form of the edge. Other arguments that a platform gives to its handlers are passed on. */
export function fetchEdge(edge: Edge, inner: FetchFunction): FetchFunction {
  const serveMcp = async (
    request: Request,
    options: FetchOptions | undefined,
    rest: never[],
  ): Promise<Response> => {
    try {
      const inbound = await inboundOf(edge, request, options);
      if (!inbound) return replyWith(413, edge.tooLarge());
      const route = await routeOf(inbound, edge);
      const isReplaced = 'body' in route && route.body !== undefined && route.body !== inbound.received;
      const passed = isReplaced ? withBody(request, JSON.stringify(route.body)) : request;
      const handle: Handle = async (body, edgeContext) => {
        const own = body === undefined || !isPlain(options) ? options : { ...options, parsedBody: body };
        const response = await runWithEdgeContext(edgeContext, () => inner(passed, own, ...rest));
        if (!edgeContext.foreignSession?.isUnknown) return response;
        await response.body?.cancel();
        return replyWith(404, NOT_FOUND);
      };
      return await serve(edge, route, inbound, request.signal, handle);
    } catch (error) {
      return replyWith(500, edge.fault(error, 'unknown'));
    }
  };
  return (request, options, ...rest) => {
    const question = request.url.includes(QUESTION_PARAMETER) ? questionIn(request.url) : undefined;
    if (question !== undefined) return asRequest(servePage, edge, request, question);
    return mayBeMcp(request.method, request.headers)
      ? asRequest(serveMcp, request, options, rest)
      : inner(request, options, ...rest);
  };
}

/** Serves the page of a question. */
async function servePage(edge: Edge, request: Request, token: string): Promise<Response> {
  try {
    const { status, headers, body } = await serveQuestion(edge.flows, request.method, token, () =>
      peekWebText(request, MAX_FORM),
    );
    return new Response(request.method === 'HEAD' ? null : body, { status, headers });
  } catch (error) {
    return replyWith(500, edge.fault(error, 'unknown'));
  }
}

/** Reads a request. Returns undefined if its body is too large. */
async function inboundOf(
  edge: Edge,
  request: Request,
  options: FetchOptions = {},
): Promise<Inbound | undefined> {
  const { method, headers } = request;
  const { authInfo, parsedBody } = options;
  const base = {
    method,
    header: (name: string) => headers.get(name) ?? undefined,
    page: () => publicUrl(request.url, headers.get('x-forwarded-proto')),
    principal: edge.principalOf(authInfo as AuthInfo | undefined, { authInfo, request }),
  };
  if (parsedBody !== undefined) return { ...base, body: { parsed: parsedBody } };
  if (method !== 'POST' || !isJson(headers.get('content-type')) || !request.body || request.bodyUsed)
    return { ...base, body: undefined };
  const text = await peekWebText(request, edge.maxBytes);
  return text === undefined ? undefined : { ...base, body: { text } };
}

/** Whether properties can be added to the second argument. On some platforms it is an object of their own. */
function isPlain(options: FetchOptions | undefined): boolean {
  if (options === undefined) return true;
  const prototype: unknown = Object.getPrototypeOf(options);
  return prototype === Object.prototype || prototype === null;
}

async function serve(
  edge: Edge,
  route: Route,
  { principal, header }: Inbound,
  signal: AbortSignal | undefined,
  handle: Handle,
): Promise<Response> {
  switch (route.do) {
    case 'reply':
      return replyWith(route.status, route.error);
    case 'fetch': {
      const deliver = edge.mailbox.open(route.event, principal);
      return typeof deliver === 'number' ? replyWith(deliver) : streaming(signal, deliver);
    }
    case 'serve': {
      const response = await handle(route.body, route.edgeContext);
      if (route.sessionId === undefined) return response;
      if (response.headers.has('mcp-session-id')) edge.ids.hasForeign = true;
      else if (response.status === 200) return withSession(response, route.sessionId);
      return response;
    }
    case 'call':
      return call(edge, route, edge.resumes(header('mcp-protocol-version')), signal, handle);
    case 'retry':
      return retry(edge, route, handle);
  }
}

/** Returns a new response with the session id, since the headers of a response from `fetch` are immutable. */
function withSession(response: Response, id: string): Response {
  const headers = new Headers(response.headers);
  headers.set('mcp-session-id', id);
  return new Response(response.body, { status: response.status, headers });
}

/** Handles a call. It ends with its response, or with a question that takes the response's place. */
async function call(
  edge: Edge,
  route: Route & { readonly do: 'call' },
  resumes: boolean,
  signal: AbortSignal | undefined,
  handle: Handle,
): Promise<Response> {
  const unsent = new UnsentMessages(edge.flows.context.events);
  let suspend: (asking: Asking) => void = () => {};
  const asked = new Promise<Asking>((resolve) => {
    suspend = resolve;
  });
  const sent = (message: Message): void => {
    if (!isResponse(message)) unsent.add(message);
  };
  const answered = handle(route.body, { suspend, sent, ...route.edgeContext });
  const deliver = (asking: Asking) => (stream: EventStream) =>
    edge.mailbox.ask({ ...asking, before: unsent.take() }, stream, resumes);
  const first = await Promise.race([answered, asked]);
  if (!(first instanceof Response)) {
    void answered.then((response) => response.body?.cancel()).catch(() => {});
    return streaming(signal, deliver(first));
  }
  if (!first.body || !first.headers.get('content-type')?.startsWith('text/event-stream')) return first;
  // The SDK has started a stream before its handler was done. If the handler asks, the question is sent on that stream.
  return new Response(takenOver(first.body, asked, unsent, signal, deliver), {
    status: first.status,
    headers: first.headers,
  });
}

/** Handles a call again with an answer, and stores the outcome for the client to fetch. */
async function retry(edge: Edge, route: Route & { readonly do: 'retry' }, handle: Handle): Promise<Response> {
  const unsent = new UnsentMessages(edge.flows.context.events);
  const over = new AbortController();
  const outcome = await new Promise<Asking | readonly Message[] | Response | undefined>((resolve, reject) => {
    const edgeContext: EdgeContext = {
      suspend: (asked) => resolve({ ...asked, before: unsent.take() }),
      sent: (message) => (isResponse(message) ? resolve([...unsent.take(), message]) : unsent.add(message)),
      ...route.edgeContext,
    };
    handle(route.body, edgeContext)
      .then(async (response) => {
        // The SDK has refused the call before any server saw it.
        if (!response.ok) return response;
        await response.body?.pipeTo(new WritableStream(), { signal: over.signal });
        return undefined;
      })
      .then(resolve, reject);
  }).finally(() => over.abort());
  if (route.answered.isRefused) return replyWith(400, REFUSED);
  if (outcome instanceof Response) return outcome;
  if (outcome) await edge.mailbox.post(route.answered.continuation, outcome);
  return replyWith(202);
}

/** Returns a response whose events `deliver` sends. */
function streaming(signal: AbortSignal | undefined, deliver: Deliver): Response {
  const gone = new AbortController();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => void send(controller, gone, signal, deliver),
    cancel: () => gone.abort(),
  });
  return new Response(body, { status: 200, headers: SSE_HEADERS });
}

/** Returns the SDK's stream until the handler asks, then the stream of its question. */
function takenOver(
  inner: ReadableStream<Uint8Array>,
  asked: Promise<Asking>,
  unsent: UnsentMessages,
  signal: AbortSignal | undefined,
  deliver: (asking: Asking) => Deliver,
): ReadableStream<Uint8Array> {
  const reader = inner.getReader();
  let taken: AbortController | undefined;
  return new ReadableStream({
    start(controller) {
      void asked.then((asking) => {
        taken = new AbortController();
        reader.cancel().catch(() => {});
        return send(controller, taken, signal, deliver(asking));
      });
    },
    async pull(controller) {
      const { done, value } = await reader.read();
      if (taken) return;
      if (done) controller.close();
      else {
        unsent.written(value);
        controller.enqueue(value);
      }
    },
    cancel(reason) {
      taken?.abort();
      return reader.cancel(reason);
    },
  });
}

async function send(
  controller: ReadableStreamDefaultController<Uint8Array>,
  gone: AbortController,
  signal: AbortSignal | undefined,
  deliver: Deliver,
): Promise<void> {
  const encoder = new TextEncoder();
  const leave = (): void => gone.abort();
  signal?.addEventListener('abort', leave, { once: true });
  const end = (): void => {
    controller.close();
    gone.abort();
  };
  try {
    await deliver(eventStream(gone.signal, (text) => controller.enqueue(encoder.encode(text)), end));
  } catch (error) {
    if (!gone.signal.aborted) controller.error(error);
  } finally {
    signal?.removeEventListener('abort', leave);
  }
}

function replyWith(status: number, error?: object): Response {
  return error === undefined
    ? new Response(null, { status })
    : new Response(errorBody(error), { status, headers: { 'content-type': 'application/json' } });
}

import type { Message } from '../../wire/index.ts';
import { QUESTION_PARAMETER } from '../carriers/fallback.ts';
import type { Asking, EdgeContext } from '../edge-context.ts';
import { runWithEdgeContext } from '../edge-context.ts';
import { REFUSED } from '../flows/opening.ts';
import type { AuthInfo } from '../principal.ts';
import { asRequest } from '../request-store.ts';
import { isJson, mayBeMcp, peekWebText, withBody } from './body.ts';
import type { Edge } from './edge.ts';
import { Notes } from './notes.ts';
import { errorBody, type Inbound, type Plan, planFor } from './plan.ts';
import { publicUrl } from './public-url.ts';
import { MAX_FORM, questionIn, serveQuestion } from './question-page.ts';
import { BEAT, type EventStream, eventText, SSE_HEADERS } from './sse.ts';
import { NOT_FOUND, type Stray } from './stray.ts';

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

/** Creates the web-standard form of the edge. Other arguments that a platform gives to its handlers are passed on. */
export function fetchEdge(edge: Edge, inner: FetchFunction): FetchFunction {
  return async (request, options, ...rest) => {
    const question = request.url.includes(QUESTION_PARAMETER) ? questionIn(request.url) : undefined;
    if (question !== undefined) return asRequest(page, edge, request, question);
    if (!mayBeMcp(request.method, (name) => request.headers.get(name)))
      return inner(request, options, ...rest);
    try {
      const handler: FetchFunction = (changed, given) => inner(changed, given, ...rest);
      return await asRequest(serve, edge, handler, request, options);
    } catch (error) {
      return replyWith(500, edge.fault(error, 'unknown'));
    }
  };
}

/** Serves the page of a question. */
async function page(edge: Edge, request: Request, token: string): Promise<Response> {
  try {
    const { status, headers, body } = await serveQuestion(edge.rounds, request.method, token, () =>
      peekWebText(request, MAX_FORM),
    );
    return new Response(request.method === 'HEAD' ? null : body, { status, headers });
  } catch (error) {
    return replyWith(500, edge.fault(error, 'unknown'));
  }
}

async function serve(
  edge: Edge,
  inner: FetchFunction,
  came: Request,
  options: FetchOptions | undefined,
): Promise<Response> {
  const inbound = await inboundOf(edge, came, options);
  if (inbound instanceof Response) return inbound;
  const plan = await planFor(inbound, edge);
  const isReplaced = 'body' in plan && plan.body !== undefined && plan.body !== inbound.came;
  const request = isReplaced ? withBody(came, JSON.stringify(plan.body)) : came;
  switch (plan.do) {
    case 'reply':
      return replyWith(plan.reply.status, plan.reply.error);
    case 'fetch': {
      const bring = edge.questionStreams.open(plan.event, inbound.principal);
      return typeof bring === 'number'
        ? new Response(null, { status: bring })
        : streaming(request.signal, bring);
    }
    case 'serve':
      return plainly(edge, plan, request, options, inner);
    case 'call':
      return call(edge, plan, request, options, inner);
    case 'mail': {
      const outcome = await outcomeOf(edge, plan, request, options, inner);
      if (plan.answered.isRefused) return replyWith(400, REFUSED);
      await edge.questionStreams.post(plan.answered.context, outcome);
      return new Response(null, { status: 202 });
    }
  }
}

async function inboundOf(
  edge: Edge,
  request: Request,
  options: FetchOptions = {},
): Promise<Inbound | Response> {
  const { method, headers } = request;
  const base = {
    method,
    header: (name: string) => headers.get(name) ?? undefined,
    page: () => publicUrl(request.url, headers.get('x-forwarded-proto')),
    principal: edge.principalOf(options.authInfo as AuthInfo | undefined, {
      authInfo: options.authInfo,
      request,
    }),
  };
  if (options.parsedBody !== undefined) return { ...base, body: { parsed: options.parsedBody } };
  if (method !== 'POST' || !isJson(headers.get('content-type')) || !request.body || request.bodyUsed)
    return { ...base, body: undefined };
  const text = await peekWebText(request, edge.maxBytes);
  return text === undefined ? replyWith(413, edge.tooLarge()) : { ...base, body: { text } };
}

async function plainly(
  { ids }: Edge,
  { body, edgeContext, mint }: Plan & { readonly do: 'serve' },
  request: Request,
  options: FetchOptions | undefined,
  inner: FetchFunction,
): Promise<Response> {
  const response = await into(inner, request, options, body, edgeContext);
  if (mint === undefined) return response;
  if (response.headers.has('mcp-session-id')) ids.othersGiven = true;
  else if (response.status === 200) return withSession(response, mint);
  return response;
}

/** Returns a new response with the session id, since the headers of a response from `fetch` are immutable. */
function withSession(response: Response, id: string): Response {
  const headers = new Headers(response.headers);
  headers.set('mcp-session-id', id);
  return new Response(response.body, { status: response.status, headers });
}

function into(
  inner: FetchFunction,
  request: Request,
  options: FetchOptions | undefined,
  body: unknown,
  edgeContext: EdgeContext | undefined,
) {
  const given = body === undefined || !isPlain(options) ? options : { ...options, parsedBody: body };
  const answered = runWithEdgeContext(edgeContext, () => inner(request, given));
  return edgeContext?.stray ? unlessLost(edgeContext.stray, answered) : answered;
}

/** Whether properties can be added to the second argument. On some platforms it is an object of their own. */
function isPlain(options: FetchOptions | undefined): boolean {
  if (options === undefined) return true;
  const prototype: unknown = Object.getPrototypeOf(options);
  return prototype === Object.prototype || prototype === null;
}

/** Returns the SDK's response, or 404 if nobody knows the session that the request names. */
async function unlessLost(stray: Stray, answered: Response | Promise<Response>): Promise<Response> {
  const response = await answered;
  if (!stray.isRefused) return response;
  await response.body?.cancel();
  return replyWith(404, NOT_FOUND);
}

/** Runs a call. It ends with its answer, or with a question that takes the answer's place. */
function start(
  edge: Edge,
  plan: Plan & { readonly do: 'call' | 'mail' },
  request: Request,
  options: FetchOptions | undefined,
  inner: FetchFunction,
) {
  const notes = new Notes(edge.rounds.context.events);
  let suspend: (asking: Asking) => void = () => {};
  const asked = new Promise<Asking>((resolve) => {
    suspend = resolve;
  });
  const sent = (message: Message): void => notes.add(message);
  const edgeContext = { suspend, sent, ...plan.edgeContext };
  const answered = Promise.resolve(into(inner, request, options, plan.body, edgeContext));
  return { asked, answered, notes };
}

async function call(
  edge: Edge,
  plan: Plan & { readonly do: 'call' },
  request: Request,
  options: FetchOptions | undefined,
  inner: FetchFunction,
): Promise<Response> {
  const { asked, answered, notes } = start(edge, plan, request, options, inner);
  const first = await Promise.race([answered, asked]);
  const resumes = edge.resumes(request.headers.get('mcp-protocol-version'));
  const bring = (asking: Asking) => (stream: EventStream) =>
    edge.questionStreams.ask({ ...asking, before: notes.take() }, stream, resumes);
  if (!(first instanceof Response)) {
    void letGo(answered);
    return streaming(request.signal, bring(first));
  }
  if (!first.body || !first.headers.get('content-type')?.startsWith('text/event-stream')) return first;
  // The SDK has started a stream before its handler was done. If the handler asks, the question is sent on that stream.
  return new Response(takenOver(first.body, asked, notes, request.signal, bring), {
    status: first.status,
    headers: first.headers,
  });
}

async function outcomeOf(
  edge: Edge,
  plan: Plan & { readonly do: 'mail' },
  request: Request,
  options: FetchOptions | undefined,
  inner: FetchFunction,
): Promise<Asking | { readonly type: string; readonly body: string }> {
  const { asked, answered, notes } = start(edge, plan, request, options, inner);
  const whole = answered.then(async (response) => ({
    type: response.headers.get('content-type') ?? '',
    body: await response.text(),
  }));
  const first = await Promise.race([whole, asked]);
  if (!('message' in first)) return first;
  whole.catch(() => {});
  return { ...first, before: notes.take() };
}

function letGo(answered: Promise<Response>): Promise<void> {
  return answered.then(
    (response) => response.body?.cancel(),
    () => {},
  );
}

type Bring = (stream: EventStream) => Promise<void>;

/** Returns a response whose events `bring` sends. */
function streaming(signal: AbortSignal | undefined, bring: Bring): Response {
  const gone = new AbortController();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => void begin(controller, gone, signal, bring),
    cancel: () => gone.abort(),
  });
  return new Response(body, { status: 200, headers: SSE_HEADERS });
}

function takenOver(
  inner: ReadableStream<Uint8Array>,
  asked: Promise<Asking>,
  notes: Notes,
  signal: AbortSignal | undefined,
  bring: (asking: Asking) => Bring,
): ReadableStream<Uint8Array> {
  const reader = inner.getReader();
  let taken: AbortController | undefined;
  return new ReadableStream({
    start(controller) {
      void asked.then((asking) => {
        taken = new AbortController();
        reader.cancel().catch(() => {});
        return begin(controller, taken, signal, bring(asking));
      });
    },
    async pull(controller) {
      const { done, value } = await reader.read();
      if (taken) return;
      if (done) controller.close();
      else {
        notes.written(value);
        controller.enqueue(value);
      }
    },
    cancel(reason) {
      taken?.abort();
      return reader.cancel(reason);
    },
  });
}

async function begin(
  controller: ReadableStreamDefaultController<Uint8Array>,
  gone: AbortController,
  signal: AbortSignal | undefined,
  bring: Bring,
): Promise<void> {
  const encoder = new TextEncoder();
  const leave = (): void => gone.abort();
  signal?.addEventListener('abort', leave, { once: true });
  try {
    await bring({
      gone: gone.signal,
      event: (data, id) => {
        if (!gone.signal.aborted) controller.enqueue(encoder.encode(eventText(data, id)));
      },
      beat: () => {
        if (!gone.signal.aborted) controller.enqueue(encoder.encode(BEAT));
      },
      end: () => {
        if (!gone.signal.aborted) controller.close();
        gone.abort();
      },
    });
  } catch (error) {
    if (!gone.signal.aborted) controller.error(error);
  } finally {
    signal?.removeEventListener('abort', leave);
  }
}

function replyWith(status: number, error: object | undefined): Response {
  return error === undefined
    ? new Response(null, { status })
    : new Response(errorBody(error), { status, headers: { 'content-type': 'application/json' } });
}

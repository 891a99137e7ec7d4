import type { IncomingMessage, ServerResponse } from 'node:http';
import { isObject } from '../../json.ts';
import type { Message } from '../../wire/index.ts';
import { QUESTION_PARAMETER } from '../carriers/fallback.ts';
import { type Asking, type EdgeContext, runWithEdgeContext } from '../edge-context.ts';
import { REFUSED } from '../flows/opening.ts';
import type { AuthInfo } from '../principal.ts';
import { asRequest } from '../request-store.ts';
import { isJson, mayBeMcp, peekNodeText, replaceNodeBody } from './body.ts';
import { type Diverted, divert, ownWays } from './divert.ts';
import type { Edge } from './edge.ts';
import { Notes } from './notes.ts';
import { errorBody, type Inbound, type Plan, planFor } from './plan.ts';
import { publicUrl } from './public-url.ts';
import { MAX_FORM, questionIn, serveQuestion } from './question-page.ts';
import { BEAT, type EventStream, eventText, SSE_HEADERS } from './sse.ts';
import { NOT_FOUND, type Stray } from './stray.ts';

/** A Node handler: `toNodeHandler(…)` of v2, or one that gives `body` to `transport.handleRequest` of either major. */
export type NodeFunction = (
  request: IncomingMessage,
  response: ServerResponse,
  body?: unknown,
) => unknown | Promise<unknown>;

/** Creates the Node form of the edge. */
export function nodeEdge(
  edge: Edge,
  inner: NodeFunction,
): (request: IncomingMessage, response: ServerResponse, body?: unknown) => Promise<unknown> {
  const isApp = typeof (inner as { readonly handle?: unknown }).handle === 'function';
  // This is one async function that awaits only if it must. Each further one costs every call, and until Node 24 twice as much
  // if an async context is tracked.
  const serveMcp = async (
    request: IncomingMessage,
    response: ServerResponse,
    body: unknown,
  ): Promise<void> => {
    // The apps of Express and Connect take `next` in place of the body.
    const handler: NodeFunction = isApp ? (req, res) => inner(req, res, body) : inner;
    try {
      const read = inboundOf(edge, request, body);
      const inbound = read instanceof Promise ? await read : read;
      if (!inbound) return reply(response, 413, edge.tooLarge());
      const planned = planFor(inbound, edge, request.socket?.remoteAddress);
      const plan = planned instanceof Promise ? await planned : planned;
      if ('body' in plan && plan.body !== undefined && plan.body !== inbound.came)
        replaceBody(request, plan.body);
      // If nobody reads the restored body, the stream ends with the response, as Node does for unread requests.
      response.once('close', () => request.resume());
      await serve(edge, plan, inbound, request, response, handler);
    } catch (error) {
      // Nobody handles the rejection of a `node:http` listener, and it would end the process.
      const fault = edge.fault(error, 'unknown');
      if (response.headersSent) response.destroy();
      else reply(response, 500, fault);
    }
  };
  const servePage = async (
    request: IncomingMessage,
    response: ServerResponse,
    token: string,
  ): Promise<void> => {
    try {
      const page = await serveQuestion(edge.rounds, request.method ?? 'GET', token, () => formOf(request));
      response.writeHead(page.status, page.headers).end(request.method === 'HEAD' ? undefined : page.body);
    } catch (error) {
      reply(response, 500, edge.fault(error, 'unknown'));
    }
  };
  return (request, response, body) => {
    const question = request.url?.includes(QUESTION_PARAMETER) ? questionIn(request.url) : undefined;
    if (question !== undefined) return asRequest(servePage, request, response, question);
    return mayBeMcp(request.method ?? 'GET', (name) => headerOf(request, name))
      ? asRequest(serveMcp, request, response, body)
      : Promise.resolve(inner(request, response, body));
  };
}

/** Returns the body of a form. A parser of the framework may have read it already. */
async function formOf(request: IncomingMessage & { readonly body?: unknown }): Promise<string | undefined> {
  const { body } = request;
  if (isObject(body)) {
    const pairs = Object.entries(body).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((each) => [name, String(each)]),
    );
    return new URLSearchParams(pairs).toString();
  }
  return typeof body === 'string' ? body : peekNodeText(request, MAX_FORM);
}

/** Replaces the message, wherever the handler looks for it. */
function replaceBody(request: IncomingMessage & { body?: unknown }, body: unknown): void {
  if (request.body !== undefined) request.body = body;
  replaceNodeBody(request, JSON.stringify(body));
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

function serve(
  edge: Edge,
  plan: Plan,
  { principal }: Inbound,
  request: IncomingMessage,
  response: ServerResponse,
  inner: NodeFunction,
): unknown {
  switch (plan.do) {
    case 'reply':
      return reply(response, plan.reply.status, plan.reply.error);
    case 'fetch': {
      const bring = edge.questionStreams.open(plan.event, principal);
      return typeof bring === 'number' ? reply(response, bring, undefined) : bring(eventsOn(response));
    }
    case 'serve':
      if (plan.mint !== undefined) offerSession(edge, response, plan.mint);
      if (plan.edgeContext?.stray) heed(plan.edgeContext.stray, response);
      return runWithEdgeContext(plan.edgeContext, () => inner(request, response, plan.body));
    case 'call':
      if (plan.edgeContext.stray) heed(plan.edgeContext.stray, response);
      return call(edge, plan, request, response, inner);
    case 'mail':
      return mail(edge, plan, request, response, inner);
  }
}

function inboundOf(
  edge: Edge,
  request: IncomingMessage,
  given: unknown,
): Inbound | Promise<Inbound | undefined> {
  const { method = 'GET', headers } = request;
  const { auth, body: before } = request as IncomingMessage & {
    readonly auth?: unknown;
    readonly body?: unknown;
  };
  const header = (name: string): string | undefined => headerOf(request, name);
  const { originalUrl } = request as IncomingMessage & { readonly originalUrl?: string };
  const page = (): string => {
    const { encrypted } = request.socket as { readonly encrypted?: boolean };
    const scheme = encrypted ? 'https' : 'http';
    const url = `${scheme}://${headers.host ?? 'localhost'}${originalUrl ?? request.url ?? '/'}`;
    return publicUrl(url, header('x-forwarded-proto'));
  };
  const principal = edge.principalOf(auth as AuthInfo | undefined, {
    authInfo: auth,
    requestInfo: { headers },
  });
  // Express passes its `next` to whatever is mounted, and its body parser leaves the body on the request.
  const parsed = given === undefined || typeof given === 'function' ? before : given;
  const base = { method, header, principal, page };
  if (parsed !== undefined) return { ...base, body: { parsed } };
  if (method !== 'POST' || !isJson(header('content-type'))) return { ...base, body: undefined };
  if (header('content-length') === '0' || request.readableEnded) return { ...base, body: undefined };
  return peekNodeText(request, edge.maxBytes).then((text) =>
    text === undefined ? undefined : { ...base, body: { text } },
  );
}

async function call(
  edge: Edge,
  plan: Plan & { readonly do: 'call' },
  request: IncomingMessage,
  response: ServerResponse,
  inner: NodeFunction,
): Promise<void> {
  const resumes = edge.resumes(request.headers['mcp-protocol-version']);
  let asking: Promise<void> | undefined;
  let notes: Notes | undefined;
  let diverted: Diverted | undefined;
  // The response is diverted only if necessary: most calls send nothing and ask nothing.
  const sent = (message: Message): void => {
    const own = (notes ??= new Notes(edge.rounds.context.events));
    diverted ??= divert(response, { collect: false, written: (chunk) => own.written(chunk) });
    own.add(message);
  };
  const suspend = (asked: Asking): void => {
    (diverted ?? divert(response, { collect: false })).takeOver();
    const before = notes?.take();
    asking = edge.questionStreams.ask({ ...asked, ...(before && { before }) }, eventsOn(response), resumes);
    asking.catch(() => response.destroy());
  };
  const edgeContext = { suspend, sent: sent as EdgeContext['sent'], ...plan.edgeContext };
  await runWithEdgeContext(edgeContext, () => inner(request, response, plan.body));
  // Values in an async context stay in memory with its promises, and some of Node's live long.
  if (response.writableEnded) {
    edgeContext.suspend = over;
    edgeContext.sent = undefined;
  }
  await asking;
}

/** Does nothing, because there is no response left on which a question could be sent. */
function over(): void {}

async function mail(
  edge: Edge,
  plan: Plan & { readonly do: 'mail' },
  request: IncomingMessage,
  response: ServerResponse,
  inner: NodeFunction,
): Promise<void> {
  const outcome = await outcomeOf(edge, plan, request, response, inner);
  if (plan.answered.isRefused) return reply(response, 400, REFUSED);
  await edge.questionStreams.post(plan.answered.context, outcome);
  reply(response, 202, undefined);
}

async function outcomeOf(
  edge: Edge,
  plan: Plan & { readonly do: 'mail' },
  request: IncomingMessage,
  response: ServerResponse,
  inner: NodeFunction,
): Promise<Asking | { readonly type: string; readonly body: string }> {
  const { whole, takeOver } = divert(response, { collect: true });
  const notes = new Notes(edge.rounds.context.events);
  return new Promise((resolve, reject) => {
    whole.then(resolve, reject);
    const suspend = (asked: Asking): void => {
      takeOver();
      resolve({ ...asked, before: notes.take() });
    };
    const edgeContext = { suspend, sent: (message: Message) => notes.add(message), ...plan.edgeContext };
    Promise.resolve(runWithEdgeContext(edgeContext, () => inner(request, response, plan.body))).catch(reject);
  });
}

/** Responds with 404 if nobody knows the session that the request names. */
function heed(stray: Stray, response: ServerResponse): void {
  stray.whenRefused(() => {
    // If the SDK has started a response, the error in it must suffice.
    if (response.headersSent) return;
    divert(response, { collect: false }).takeOver();
    reply(response, 404, NOT_FOUND);
  });
}

/** Adds the session id to the response to `initialize`, unless the SDK has its own or has refused. */
function offerSession({ ids }: Edge, response: ServerResponse, id: string): void {
  const { writeHead } = response;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    response.writeHead = writeHead;
    const headers = rest.at(-1);
    const given = response.hasHeader('mcp-session-id') || (isObject(headers) && 'mcp-session-id' in headers);
    if (given) ids.othersGiven = true;
    else if (status === 200) response.setHeader('mcp-session-id', id);
    return (writeHead as (...args: unknown[]) => ServerResponse).call(response, status, ...rest);
  }) as ServerResponse['writeHead'];
}

/** Returns an event stream on a response that the edge owns. */
function eventsOn(response: ServerResponse): EventStream {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  if (response.destroyed) gone.abort();
  const { writeHead, write, end } = ownWays(response);
  if (!response.headersSent) writeHead.call(response, 200, { ...SSE_HEADERS });
  return {
    gone: gone.signal,
    event: (data, id) => {
      if (!gone.signal.aborted) (write as (chunk: string) => boolean).call(response, eventText(data, id));
    },
    beat: () => {
      if (!gone.signal.aborted) (write as (chunk: string) => boolean).call(response, BEAT);
    },
    end: () => {
      if (!gone.signal.aborted) (end as () => ServerResponse).call(response);
    },
  };
}

function reply(response: ServerResponse, status: number, error: object | undefined): void {
  const { writeHead, end } = ownWays(response);
  if (error === undefined) {
    writeHead.call(response, status);
    (end as () => ServerResponse).call(response);
    return;
  }
  writeHead.call(response, status, { 'content-type': 'application/json' });
  (end as (chunk: string) => ServerResponse).call(response, errorBody(error));
}

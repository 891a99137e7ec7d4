import type { IncomingMessage, ServerResponse } from 'node:http';
import { isObject } from '../../core/json.ts';
import { isResponse, type Message } from '../../wire/index.ts';
import { QUESTION_PARAMETER } from '../carriers/fallback.ts';
import { type Asking, type EdgeContext, runWithEdgeContext } from '../edge-context.ts';
import { REFUSED } from '../flows/flows.ts';
import type { AuthInfo } from '../principal.ts';
import { asRequest } from '../request-store.ts';
import { isJson, mayBeMcp, peekNodeText, publicUrl, replaceNodeBody } from './body.ts';
import { NodeResponse } from './node-response.ts';
import { MAX_FORM, questionIn, serveQuestion } from './question-page.ts';
import { type Edge, type Inbound, type Route, routeOf } from './route.ts';
import { UnsentMessages } from './sse.ts';
import { NOT_FOUND } from './transport-session.ts';

/** A Node handler: `toNodeHandler(…)` of v2, or one that gives `body` to `transport.handleRequest` of either major. */
export type NodeFunction = (
  request: IncomingMessage,
  response: ServerResponse,
  body?: unknown,
) => unknown | Promise<unknown>;

/** Runs the handler behind the edge with a body, in what the edge knows about the request. */
type Handle = (body: unknown, edgeContext: EdgeContext) => unknown;

/** Creates the Node form of the edge. */
export function nodeEdge(edge: Edge, inner: NodeFunction): NodeFunction {
  const isApp = typeof (inner as { readonly handle?: unknown }).handle === 'function';
  const serveMcp = async (
    request: IncomingMessage,
    response: ServerResponse,
    parsedOrNext: unknown,
  ): Promise<void> => {
    const out = new NodeResponse(response);
    try {
      const read = inboundOf(edge, request, parsedOrNext);
      const inbound = read instanceof Promise ? await read : read;
      if (!inbound) return out.reply(413, edge.tooLarge());
      const routed = routeOf(inbound, edge);
      const route = routed instanceof Promise ? await routed : routed;
      if ('body' in route && route.body !== undefined && route.body !== inbound.received)
        replaceBody(request, route.body);
      // If nobody reads the restored body, the stream ends with the response, as Node does for unread requests.
      response.once('close', () => request.resume());
      const handle: Handle = (body, edgeContext) => {
        // The apps of Express and Connect take `next` in place of the body.
        const last = isApp ? parsedOrNext : body;
        return runWithEdgeContext(edgeContext, () => inner(request, response, last));
      };
      await serve(edge, route, inbound, response, out, handle);
    } catch (error) {
      // Nobody handles the rejection of a `node:http` listener, and it would end the process.
      const fault = edge.fault(error, 'unknown');
      if (response.headersSent) response.destroy();
      else out.reply(500, fault);
    }
  };
  const servePage = async (
    request: IncomingMessage,
    response: ServerResponse,
    token: string,
  ): Promise<void> => {
    try {
      const page = await serveQuestion(edge.flows, request.method ?? 'GET', token, () => formOf(request));
      response.writeHead(page.status, page.headers).end(request.method === 'HEAD' ? undefined : page.body);
    } catch (error) {
      new NodeResponse(response).reply(500, edge.fault(error, 'unknown'));
    }
  };
  return (request, response, body) => {
    const question = request.url?.includes(QUESTION_PARAMETER) ? questionIn(request.url) : undefined;
    if (question !== undefined) return asRequest(servePage, request, response, question);
    return mayBeMcp(request.method ?? 'GET', { get: (name) => headerOf(request, name) })
      ? asRequest(serveMcp, request, response, body)
      : Promise.resolve(inner(request, response, body));
  };
}

function serve(
  edge: Edge,
  route: Route,
  { principal, header }: Inbound,
  response: ServerResponse,
  out: NodeResponse,
  handle: Handle,
): unknown {
  switch (route.do) {
    case 'reply':
      return out.reply(route.status, route.error);
    case 'fetch': {
      const deliver = edge.mailbox.open(route.event, principal);
      return typeof deliver === 'number' ? out.reply(deliver) : deliver(out.events());
    }
    case 'serve':
    case 'call': {
      if (route.do === 'serve' && route.sessionId !== undefined)
        out.offerSession(route.sessionId, () => {
          edge.ids.hasForeign = true;
        });
      route.edgeContext.foreignSession?.whenUnknown(() => {
        // If the SDK has started a response, the error in it must suffice.
        if (!response.headersSent) out.reply(404, NOT_FOUND);
      });
      return route.do === 'serve'
        ? handle(route.body, route.edgeContext)
        : call(edge, route, header('mcp-protocol-version'), response, out, handle);
    }
    case 'retry':
      return retry(edge, route, out, handle);
  }
}

async function call(
  edge: Edge,
  route: Route & { readonly do: 'call' },
  version: string | undefined,
  response: ServerResponse,
  out: NodeResponse,
  handle: Handle,
): Promise<void> {
  let asking: Promise<void> | undefined;
  let unsent: UnsentMessages | undefined;
  const edgeContext = {
    suspend: (asked: Asking): void => {
      const before = unsent?.take();
      asking = edge.mailbox.ask({ ...asked, ...(before && { before }) }, out.events(), edge.resumes(version));
      asking.catch(() => response.destroy());
    },
    // The response is intercepted only if necessary: most calls send nothing and ask nothing.
    sent: ((message: Message): void => {
      if (isResponse(message)) return;
      if (!unsent) {
        const own = new UnsentMessages(edge.flows.context.events);
        out.watch((chunk) => own.written(chunk));
        unsent = own;
      }
      unsent.add(message);
    }) as EdgeContext['sent'],
    ...route.edgeContext,
  };
  await handle(route.body, edgeContext);
  // Values in an async context stay in memory with its promises, and some of Node's live long.
  if (response.writableEnded) {
    edgeContext.suspend = () => {};
    edgeContext.sent = undefined;
  }
  await asking;
}

/** Handles a call again with an answer, and stores the outcome for the client to fetch. */
async function retry(
  edge: Edge,
  route: Route & { readonly do: 'retry' },
  out: NodeResponse,
  handle: Handle,
): Promise<void> {
  const unsent = new UnsentMessages(edge.flows.context.events);
  const outcome = await new Promise<Asking | readonly Message[] | undefined>((resolve, reject) => {
    out.hold(() => resolve(undefined));
    const edgeContext: EdgeContext = {
      suspend: (asked) => resolve({ ...asked, before: unsent.take() }),
      sent: (message) => (isResponse(message) ? resolve([...unsent.take(), message]) : unsent.add(message)),
      ...route.edgeContext,
    };
    Promise.resolve(handle(route.body, edgeContext)).catch(reject);
  });
  if (route.answered.isRefused) return out.reply(400, REFUSED);
  // The SDK has refused the call before any server saw it.
  if (!outcome && out.isRefusal) return out.release();
  if (outcome) await edge.mailbox.post(route.answered.continuation, outcome);
  out.reply(202);
}

function inboundOf(
  edge: Edge,
  request: IncomingMessage & { readonly auth?: AuthInfo; readonly body?: unknown },
  parsedOrNext: unknown,
): Inbound | Promise<Inbound | undefined> {
  const { method = 'GET', headers, auth, socket } = request;
  const header = (name: string): string | undefined => headerOf(request, name);
  const page = (): string => {
    const { originalUrl } = request as IncomingMessage & { readonly originalUrl?: string };
    const scheme = (socket as { readonly encrypted?: boolean }).encrypted ? 'https' : 'http';
    const url = `${scheme}://${headers.host ?? 'localhost'}${originalUrl ?? request.url ?? '/'}`;
    return publicUrl(url, header('x-forwarded-proto'));
  };
  const principal = edge.principalOf(auth, { authInfo: auth, requestInfo: { headers } });
  // Express passes its `next` to whatever is mounted, and its body parser leaves the body on the request.
  const isNext = parsedOrNext === undefined || typeof parsedOrNext === 'function';
  const parsed = isNext ? request.body : parsedOrNext;
  const base = { method, header, principal, page, address: socket?.remoteAddress };
  if (parsed !== undefined) return { ...base, body: { parsed } };
  if (method !== 'POST' || !isJson(header('content-type'))) return { ...base, body: undefined };
  if (header('content-length') === '0' || request.readableEnded) return { ...base, body: undefined };
  return peekNodeText(request, edge.maxBytes).then((text) =>
    text === undefined ? undefined : { ...base, body: { text } },
  );
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

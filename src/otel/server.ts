import {
  type Attributes,
  context,
  type Link,
  type Meter,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { NO_RESPONSE } from '../core/compose.ts';
import type { Exchange, ServerMiddleware } from '../server/exchange.ts';
import type { ServerFacts, ServerObservation } from '../server/telemetry.ts';
import { INTRODUCTIONS, type Response } from '../wire/index.ts';
import {
  argumentAttributes,
  failureOf,
  familiesUsed,
  hasSession,
  requestAttributes,
  spanName,
} from './attributes.ts';
import { observing, type SideMetrics, sideMetrics } from './metrics.ts';
import type { Settings } from './settings.ts';
import {
  contextIn,
  fieldsOf,
  hasTrace,
  spanContextOf,
  spanOfOthers,
  traceparentOf,
} from './trace-context.ts';

/** Observes a server. */
export function observeServer(
  facts: ServerFacts,
  tracer: Tracer,
  meter: Meter,
  { spans, captureContent, captureSessionId }: Settings,
): ServerObservation {
  const metrics = sideMetrics(meter, 'server');

  /** Creates the span of a request, unless another library has. */
  const begin = (exchange: Exchange): { span: Span | undefined; isOwn: boolean } => {
    const { request } = exchange;
    const existing = spanOfOthers(request.method, 'server');
    if (existing || !spans) return { span: existing ?? trace.getActiveSpan(), isOwn: false };
    const { _meta } = request.params ?? {};
    const parent = contextIn(_meta);
    const ambient = trace.getActiveSpan()?.spanContext();
    // The request names its parent. The active span, such as that of the HTTP request, becomes a link.
    const links: Link[] = ambient && hasTrace(_meta) ? [{ context: ambient }] : [];
    const attributes: Attributes = {
      ...requestAttributes(request),
      ...peerAttributes(exchange),
      ...(captureSessionId && exchange.transportSession && { 'mcp.session.id': exchange.transportSession }),
      ...argumentAttributes(request, captureContent),
    };
    return {
      span: tracer.startSpan(spanName(request), { kind: SpanKind.SERVER, attributes, links }, parent),
      isOwn: true,
    };
  };

  /** Adds what Valise knows after the request: families, flow, session and store. */
  const describe = (span: Span, exchange: Exchange, response: Response | undefined): void => {
    const before = facts.before(exchange);
    const asked = exchange.observed?.asked;
    const flow = asked ?? before;
    const families = familiesUsed(exchange.request, response, flow !== undefined);
    span.setAttributes({
      ...(families.length > 0 && { 'valise.family': families }),
      'valise.session.kind': sessionKind(exchange),
      ...(facts.store !== undefined && { 'valise.store.system': facts.store }),
      ...(flow && { 'valise.flow.id': flow.flow, 'valise.round': flow.round }),
      ...(asked && { 'valise.carrier': asked.carrier }),
    });
    // A flow may last for hours, over many traces: each round links to the one before.
    const previous = spanContextOf(before?.traceparent);
    if (previous) span.addLink({ context: previous, attributes: { 'valise.link': 'previous-round' } });
    if (captureContent && exchange.method === 'tools/call' && response && 'result' in response)
      span.setAttribute('gen_ai.tool.call.result', JSON.stringify(response.result['content'] ?? null));
  };

  const middleware: ServerMiddleware = async (exchange, next) => {
    const start = performance.now();
    const { request } = exchange;
    const { span, isOwn } = begin(exchange);
    exchange.observed = { traceparent: span && traceparentOf(span.spanContext()) };
    if (INTRODUCTIONS.has(request.method)) followSession(exchange, metrics);
    let failure: Attributes | undefined;
    let response: Response | undefined;
    try {
      const within = isOwn && span ? trace.setSpan(contextIn(request.params?._meta), span) : undefined;
      response = await (within ? context.with(within, next) : next());
      failure = failureOf(response);
      return response;
    } catch (error) {
      // A question that travels another way has no response either, and is no failure.
      const isFailure = error !== NO_RESPONSE || exchange.signal.aborted;
      if (isFailure) failure = { 'error.type': error === NO_RESPONSE ? 'cancelled' : 'internal' };
      throw error;
    } finally {
      if (span?.isRecording()) {
        describe(span, exchange, response);
        if (failure && isOwn) span.setAttributes(failure).setStatus({ code: SpanStatusCode.ERROR });
      }
      if (isOwn) span?.end();
      metrics.request(start, request, peerAttributes(exchange), failure);
    }
  };

  return {
    middleware,
    outgoing(question, next) {
      const { params } = question.request;
      const fields = hasTrace(params?._meta) ? {} : fieldsOf(context.active());
      if (fields['traceparent'] !== undefined)
        question.request = {
          ...question.request,
          params: { ...params, _meta: { ...params?._meta, ...fields } },
        };
      return next();
    },
    close: observeEvents(facts, meter, metrics),
  };
}

/** Counts what the events and counters of the server tell. */
function observeEvents(
  { events, counts, waiting }: ServerFacts,
  meter: Meter,
  metrics: SideMetrics,
): () => void {
  const rounds = meter.createObservableCounter('valise.rounds', {
    description: 'The rounds of flows, by what became of them.',
  });
  const pending = meter.createObservableGauge('valise.pending', {
    description: 'Calls that wait for their user.',
  });
  const offs = [
    events.on('rejected', ({ family, reason }) => metrics.reject(family, reason)),
    events.on('overloaded', () => metrics.reject('limits', 'overloaded')),
    events.on('message-too-large', () => metrics.reject('limits', 'message-too-large')),
    observing(rounds, (result) => {
      for (const [state, count] of Object.entries(counts()))
        result.observe(count, { 'valise.round.state': state });
    }),
    observing(pending, (result) => result.observe(waiting(), { 'valise.side': 'server' })),
  ];
  return () => offs.forEach((off) => void off());
}

/** Measures a transport session from its introduction to the end of its transport. */
function followSession(exchange: Exchange, metrics: SideMetrics): void {
  if (exchange.transportSession === undefined) return;
  const start = performance.now();
  const attributes = peerAttributes(exchange);
  exchange.link.closed.addEventListener('abort', () => metrics.session(start, attributes), { once: true });
}

function peerAttributes({ peer, transportSession, edgeContext }: Exchange): Attributes {
  const isPipe = transportSession?.startsWith('link:') === true && edgeContext === undefined;
  const { protocolVersion } = peer;
  return {
    ...(protocolVersion !== undefined && { 'mcp.protocol.version': protocolVersion.slice(0, 16) }),
    'network.transport': isPipe ? 'pipe' : 'tcp',
    ...(!isPipe && { 'network.protocol.name': 'http' }),
  };
}

function sessionKind({ request, transportSession }: Exchange): string {
  if (hasSession(request.params?._meta)) return 'data-layer';
  return transportSession === undefined ? 'none' : 'transport';
}

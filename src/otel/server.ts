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
import { familiesUsed, hasSession } from '../wire/used.ts';
import { failureOf, Labels, requestAttributes, spanName, subjectAttributes } from './attributes.ts';
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
  { spans, captureContent, captureSessionId, buckets }: Settings,
): ServerObservation {
  const duration = meter.createHistogram('mcp.server.operation.duration', {
    unit: 's',
    description: 'The duration of a request that the server handles.',
    advice: buckets,
  });
  const lifetime = meter.createHistogram('mcp.server.session.duration', {
    unit: 's',
    description: 'The duration of a transport session.',
  });
  const names = new Labels();

  /** Creates the span of a request, unless another library has. */
  const begin = (exchange: Exchange): { span: Span | undefined; isOwn: boolean } => {
    const { request } = exchange;
    const existing = spanOfOthers(request.method, 'server');
    if (existing || !spans) return { span: existing ?? trace.getActiveSpan(), isOwn: false };
    const { _meta } = request.params ?? {};
    const parent = contextIn(_meta);
    const ambient = trace.getActiveSpan()?.spanContext();
    // The request names its parent. What is active here, such as the HTTP request, is a link then.
    const links: Link[] = ambient && hasTrace(_meta) ? [{ context: ambient }] : [];
    const attributes: Attributes = {
      ...requestAttributes(request),
      ...peerAttributes(exchange),
      ...(captureSessionId && exchange.transportSession && { 'mcp.session.id': exchange.transportSession }),
      ...(captureContent &&
        request.method === 'tools/call' && {
          'gen_ai.tool.call.arguments': JSON.stringify(request.params?.['arguments'] ?? {}),
        }),
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
    if (INTRODUCTIONS.has(request.method)) followSession(exchange, lifetime);
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
      duration.record((performance.now() - start) / 1000, {
        'mcp.method.name': request.method,
        ...bounded(subjectAttributes(request), names),
        ...peerAttributes(exchange),
        ...failure,
      });
    }
  };

  return {
    middleware,
    asking(request) {
      const { params } = request;
      if (hasTrace(params?._meta)) return request;
      const fields = fieldsOf(context.active());
      return fields['traceparent'] === undefined
        ? request
        : { ...request, params: { ...params, _meta: { ...params?._meta, ...fields } } };
    },
    close: observeEvents(facts, meter),
  };
}

/** Counts what the events and counters of the server tell. */
function observeEvents({ events, counts, waiting }: ServerFacts, meter: Meter): () => void {
  const rejected = meter.createCounter('valise.rejected', {
    description: 'What clients sent and the server did not accept, by reason.',
  });
  const reasons = new Labels();
  const reject = (family: string, reason: string): void =>
    rejected.add(1, { 'valise.family': family, 'valise.rejected.reason': reasons.of(reason) });
  const rounds = meter.createObservableCounter('valise.rounds', {
    description: 'The rounds of flows, by what became of them.',
  });
  const pending = meter.createObservableGauge('valise.pending', {
    description: 'Calls that wait for their user.',
  });
  const offs = [
    events.on('rejected', ({ family, reason }) => reject(family, reason)),
    events.on('overloaded', () => reject('limits', 'overloaded')),
    events.on('message-too-large', () => reject('limits', 'message-too-large')),
    observing(rounds, (result) => {
      for (const [state, count] of Object.entries(counts()))
        result.observe(count, { 'valise.round.state': state });
    }),
    observing(pending, (result) => result.observe(waiting(), { 'valise.side': 'server' })),
  ];
  return () => offs.forEach((off) => void off());
}

type Instrument = ReturnType<Meter['createObservableGauge']>;
type Callback = Parameters<Instrument['addCallback']>[0];

function observing(instrument: Instrument, callback: Callback): () => void {
  instrument.addCallback(callback);
  return () => instrument.removeCallback(callback);
}

/** Measures a transport session from its introduction to the end of its transport. */
function followSession(exchange: Exchange, lifetime: ReturnType<Meter['createHistogram']>): void {
  if (exchange.transportSession === undefined) return;
  const start = performance.now();
  const attributes = peerAttributes(exchange);
  exchange.link.closed.addEventListener(
    'abort',
    () => lifetime.record((performance.now() - start) / 1000, attributes),
    { once: true },
  );
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

function bounded(attributes: Attributes, names: Labels): Attributes {
  for (const key of ['gen_ai.tool.name', 'gen_ai.prompt.name'])
    if (attributes[key] !== undefined) attributes[key] = names.of(String(attributes[key]));
  return attributes;
}

import {
  type Attributes,
  context,
  type Meter,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type { Call, ServerRequestMiddleware } from '../client/call.ts';
import type { ClientMiddleware, Connection } from '../client/connection.ts';
import type { ClientFacts, ClientObservation } from '../client/telemetry.ts';
import { NO_RESPONSE } from '../core/compose.ts';
import type { Request, Response } from '../wire/index.ts';
import { argumentAttributes, failureOf, familiesUsed, requestAttributes, spanName } from './attributes.ts';
import { observing, sideMetrics } from './metrics.ts';
import type { Settings } from './settings.ts';
import { contextIn, fieldsOf, hasTrace, spanOfOthers } from './trace-context.ts';

/** Observes a client. */
export function observeClient(
  { events, pending }: ClientFacts,
  tracer: Tracer,
  meter: Meter,
  { spans, captureContent }: Settings,
): ClientObservation {
  const metrics = sideMetrics(meter, 'client');
  const refreshes = meter.createCounter('valise.oauth.refreshes', {
    description: 'Access tokens that this process has refreshed.',
  });
  const open = meter.createObservableGauge('valise.pending', { description: 'Pending questions.' });
  const offs = [
    events.on('refused', ({ reason }) => metrics.reject('jar', reason)),
    events.on('session-refused', ({ reason }) => metrics.reject('sessions', reason)),
    events.on('message-too-large', () => metrics.reject('limits', 'message-too-large')),
    events.on('refreshed', () => refreshes.add(1)),
    observing(open, async (result) => result.observe(await pending(), { 'valise.side': 'client' })),
  ];
  const since = new WeakMap<Connection, number>();
  const begin = (call: Call): Span | undefined => {
    const { request } = call;
    // Whoever has set the trace context has made the span, too.
    if (!spans || hasTrace(request.params?._meta) || spanOfOthers(request.method, 'client')) return undefined;
    const attributes: Attributes = {
      ...requestAttributes(request),
      ...peerAttributes(call.connection),
      ...argumentAttributes(request, captureContent),
    };
    return tracer.startSpan(spanName(request), { kind: SpanKind.CLIENT, attributes });
  };

  const middleware: ClientMiddleware = async (call, next) => {
    if (call.known) return next();
    const start = performance.now();
    const span = begin(call);
    const within = span ? trace.setSpan(context.active(), span) : context.active();
    if (!hasTrace(call.request.params?._meta)) call.addMeta('trace', fieldsOf(within));
    let failure: Attributes | undefined;
    let response: Response | undefined;
    try {
      response = await (span ? context.with(within, next) : next());
      failure = failureOf(response);
      return response;
    } catch (error) {
      failure = { 'error.type': error === NO_RESPONSE ? 'cancelled' : 'undelivered' };
      throw error;
    } finally {
      const target = span ?? spanOfOthers(call.method, 'client');
      if (target?.isRecording()) {
        const families = familiesUsed(call.outgoing() as Request, response, call.hasBegun);
        if (families.length > 0) target.setAttribute('valise.family', families);
      }
      if (failure) span?.setAttributes(failure).setStatus({ code: SpanStatusCode.ERROR });
      span?.end();
      metrics.request(start, call.request, peerAttributes(call.connection), failure);
    }
  };

  const incoming: ServerRequestMiddleware = async ({ request, connection }, next) => {
    if (!spans || spanOfOthers(request.method, 'server')) return next();
    const attributes = { ...requestAttributes(request), ...peerAttributes(connection) };
    const parent = contextIn(request.params?._meta);
    const span = tracer.startSpan(spanName(request), { kind: SpanKind.SERVER, attributes }, parent);
    let failure: Attributes | undefined = { 'error.type': 'cancelled' };
    try {
      const response = await context.with(trace.setSpan(parent, span), next);
      failure = failureOf(response);
      return response;
    } finally {
      if (failure) span.setAttributes(failure).setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    }
  };

  return {
    middleware,
    incoming,
    part: {
      opening: (connection) => void since.set(connection, performance.now()),
      closed(connection) {
        const start = since.get(connection);
        since.delete(connection);
        if (start !== undefined) metrics.session(start, peerAttributes(connection));
      },
    },
    close: () => offs.forEach((off) => void off()),
  };
}

function peerAttributes({ target }: Connection): Attributes {
  if (target.kind !== 'http') return { 'network.transport': 'pipe' };
  const { hostname, port, protocol } = target.url;
  return {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'server.address': hostname,
    'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
  };
}

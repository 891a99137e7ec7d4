import {
  type Context,
  context,
  propagation,
  type Span,
  type SpanContext,
  SpanKind,
  trace,
} from '@opentelemetry/api';
import type { Meta } from '../wire/index.ts';

const FIELDS = ['traceparent', 'tracestate', 'baggage'] as const;
const MAX_FIELD = 8192;

/** Whether a message carries a trace context. */
export function hasTrace(meta: Meta | undefined): boolean {
  return typeof meta?.['traceparent'] === 'string';
}

/** Returns the context that a message carries in its `_meta`, or the active one if it carries none. */
export function contextIn(meta: Meta | undefined): Context {
  const active = context.active();
  if (!hasTrace(meta)) return active;
  const carrier: Record<string, string> = {};
  for (const field of FIELDS) {
    const value = meta?.[field];
    if (typeof value === 'string' && value.length <= MAX_FIELD) carrier[field] = value;
  }
  return propagation.extract(active, carrier);
}

/** Returns the `_meta` fields that carry a context. */
export function fieldsOf(of: Context): Record<string, string> {
  const carrier: Record<string, string> = {};
  propagation.inject(of, carrier);
  const fields: Record<string, string> = {};
  for (const field of FIELDS) if (typeof carrier[field] === 'string') fields[field] = carrier[field];
  return fields;
}

/** Returns a span's context as a W3C `traceparent`. */
export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Reads a `traceparent` that this server wrote. */
export function spanContextOf(traceparent: string | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags = '00'] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

/**
 * Returns the active span if another library made it for this very request, on this side.
 *
 * The API has no way to read a span, but the spans of the SDK, and those of Sentry, have `attributes` and `kind`. A server that
 * calls another one has the span of its own request around that call, so the kinds are told apart.
 */
export function spanOfOthers(method: string, side: 'client' | 'server'): Span | undefined {
  const span = trace.getActiveSpan();
  const { attributes, kind } = (span ?? {}) as {
    readonly attributes?: Readonly<Record<string, unknown>>;
    readonly kind?: SpanKind;
  };
  if (attributes?.['mcp.method.name'] !== method) return undefined;
  return (kind === SpanKind.CLIENT) === (side === 'client') ? span : undefined;
}

import type { Attributes, Histogram, Meter } from '@opentelemetry/api';
import { ValiseError } from '../core/errors.ts';
import type { Store } from '../store/types.ts';
import type { Request } from '../wire/index.ts';
import { subjectAttributes } from './attributes.ts';

/** The bucket boundaries that the semantic conventions recommend for requests, in seconds. */
const REQUEST_BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** The bucket boundaries for operations of a store, in seconds. */
const STORE_BUCKETS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];

/** The metrics that clients and servers have in common. */
export interface SideMetrics {
  /** Records a request that began at `start`, a time of `performance.now()`. */
  request(start: number, request: Request, peer: Attributes, failure: Attributes | undefined): void;
  /** Records a connection, or a transport session, that began at `start`. */
  session(start: number, peer: Attributes): void;
  /** Counts something that the other side sent and this side did not accept. */
  reject(family: string, reason: string): void;
}

/** Creates the metrics of one side, by the semantic conventions for MCP. */
export function sideMetrics(meter: Meter, side: 'client' | 'server'): SideMetrics {
  const request = meter.createHistogram(`mcp.${side}.operation.duration`, {
    unit: 's',
    description: `The duration of a request, as the ${side} sees it.`,
    advice: { explicitBucketBoundaries: REQUEST_BUCKETS },
  });
  const session = meter.createHistogram(`mcp.${side}.session.duration`, {
    unit: 's',
    description: `The duration of a connection, as the ${side} sees it.`,
  });
  const rejected = meter.createCounter('valise.rejected', {
    description: 'What the other side sent and was not accepted, by reason.',
  });
  const names = new Labels();
  const reasons = new Labels();
  return {
    request(start, { method, params }, peer, failure) {
      const subject = subjectAttributes({ method, params });
      for (const key of ['gen_ai.tool.name', 'gen_ai.prompt.name'])
        if (subject[key] !== undefined) subject[key] = names.of(String(subject[key]));
      request.record(secondsSince(start), { 'mcp.method.name': method, ...subject, ...peer, ...failure });
    },
    session: (start, peer) => session.record(secondsSince(start), peer),
    reject: (family, reason) =>
      rejected.add(1, { 'valise.family': family, 'valise.rejected.reason': reasons.of(reason) }),
  };
}

/** The number of different values of one label that metrics distinguish. A peer can send any number of names. */
const MAX_VALUES = 200;

/** Replaces values of a label beyond the first {@link MAX_VALUES} by `_other`, so that no peer can grow the metrics. */
class Labels {
  readonly #seen = new Set<string>();

  of(value: string): string {
    if (this.#seen.has(value)) return value;
    if (this.#seen.size >= MAX_VALUES) return '_other';
    this.#seen.add(value);
    return value;
  }
}

type Instrument = ReturnType<Meter['createObservableGauge']>;
type Callback = Parameters<Instrument['addCallback']>[0];

/** Reads a value whenever metrics are collected. Returns a function that stops it. */
export function observing(instrument: Instrument, callback: Callback): () => void {
  instrument.addCallback(callback);
  return () => instrument.removeCallback(callback);
}

const OPERATIONS = ['get', 'put', 'delete', 'list', 'entries', 'scan', 'lease'] as const;

/** Returns a store that measures another one. It has the optional methods of that store, and no others. */
export function measuredStore(store: Store, system: string, meter: Meter): Store {
  const duration: Histogram = meter.createHistogram('valise.store.duration', {
    unit: 's',
    description: 'The duration of an operation of the store.',
    advice: { explicitBucketBoundaries: STORE_BUCKETS },
  });
  const measured: Record<string, unknown> = { close: () => store.close() };
  for (const operation of OPERATIONS) {
    const own = (store as unknown as Record<string, ((...args: unknown[]) => unknown) | undefined>)[
      operation
    ];
    if (!own) continue;
    const attributes = { 'valise.store.system': system, 'valise.store.operation': operation };
    measured[operation] = async (...args: unknown[]): Promise<unknown> => {
      const start = performance.now();
      let failure: object = {};
      try {
        return await own.apply(store, args);
      } catch (error) {
        failure = { 'error.type': error instanceof ValiseError ? error.code : 'other' };
        throw error;
      } finally {
        duration.record(secondsSince(start), { ...attributes, ...failure });
      }
    };
  }
  return measured as unknown as Store;
}

function secondsSince(start: number): number {
  return (performance.now() - start) / 1000;
}

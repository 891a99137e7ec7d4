import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { parse } from 'yaml';

/** What the tests use of `examples/observability/collector.yaml`. */
export interface CollectorConfig {
  readonly receivers: {
    readonly otlp: { readonly protocols: { readonly http: { readonly endpoint: string } } };
  };
  readonly processors: Readonly<Record<string, unknown>>;
  readonly exporters: {
    readonly prometheus: {
      readonly endpoint: string;
      readonly resource_to_telemetry_conversion: { readonly enabled: boolean };
    };
    readonly otlphttp: { readonly endpoint: string };
  };
  readonly service: {
    readonly pipelines: Readonly<
      Record<'metrics' | 'traces', Readonly<Record<'receivers' | 'processors' | 'exporters', string[]>>>
    >;
  };
}

export const collectorConfig = parse(
  readFileSync(new URL('../../examples/observability/collector.yaml', import.meta.url), 'utf8'),
) as CollectorConfig;

interface Attribute {
  readonly key: string;
  readonly value: object;
}
interface DataPoint {
  readonly attributes: Attribute[];
  readonly count?: number;
  readonly sum?: number;
  readonly bucketCounts?: number[];
  readonly explicitBounds?: number[];
  readonly asInt?: number;
  readonly asDouble?: number;
}
interface Metric {
  readonly name: string;
  readonly unit?: string;
  readonly sum?: { readonly dataPoints: DataPoint[] };
  readonly gauge?: { readonly dataPoints: DataPoint[] };
  readonly histogram?: { readonly dataPoints: DataPoint[] };
}
interface Export {
  readonly resourceSpans?: unknown[];
  readonly resourceMetrics?: {
    readonly resource: { readonly attributes: Attribute[] };
    readonly scopeMetrics: { readonly metrics: Metric[] }[];
  }[];
}

/** A sample, as Prometheus scrapes it. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/**
 * Stands in for a collector with the configuration above: receives OTLP over HTTP, and has what it got at `/metrics`, with the
 * names, labels and units that the collector's Prometheus exporter gives them. `port` 0 is any free one.
 */
export async function startCollector(port = 0) {
  const latest = new Map<string, Sample[]>();
  let traces = 0;
  const http = createServer(async (request, response) => {
    if (request.url === '/metrics') {
      response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' });
      return void response.end(exposition([...latest.values()].flat()));
    }
    const { resourceSpans, resourceMetrics } = (await json(request)) as Export;
    traces += resourceSpans?.length ?? 0;
    for (const { resource, scopeMetrics } of resourceMetrics ?? []) {
      const labels = labelsOf(resource.attributes);
      const samples = scopeMetrics.flatMap(({ metrics }) =>
        metrics.flatMap((each) => samplesOf(each, labels)),
      );
      latest.set(JSON.stringify(labels), samples);
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  }).listen(port, '127.0.0.1');
  await once(http, 'listening');
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
  });
  return {
    address: `127.0.0.1:${(http.address() as AddressInfo).port}`,
    samples: (): Sample[] => [...latest.values()].flat(),
    traces: () => traces,
  };
}

const promName = (name: string): string => name.replace(/[^a-zA-Z0-9_]/g, '_');

function labelsOf(attributes: readonly Attribute[]): Record<string, string> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [promName(key), String(Object.values(value)[0])]),
  );
}

function samplesOf(
  { name, unit, sum, gauge, histogram }: Metric,
  resource: Record<string, string>,
): Sample[] {
  const base = promName(name) + (unit === 's' ? '_seconds' : '');
  const { dataPoints = [] } = sum ?? gauge ?? histogram ?? {};
  return dataPoints.flatMap((point) => {
    const labels = { ...resource, ...labelsOf(point.attributes) };
    const sample = (suffix: string, value: number, more = {}): Sample => ({
      name: base + suffix,
      labels: { ...labels, ...more },
      value,
    });
    if (!histogram) return [sample(sum ? '_total' : '', Number(point.asInt ?? point.asDouble ?? 0))];
    let count = 0;
    const bounds = [...(point.explicitBounds ?? []), '+Inf'];
    const buckets = bounds.map((le, at) => {
      count += Number(point.bucketCounts?.[at] ?? 0);
      return sample('_bucket', count, { le: String(le) });
    });
    return [...buckets, sample('_count', Number(point.count ?? 0)), sample('_sum', Number(point.sum ?? 0))];
  });
}

/** Writes samples in the text format of Prometheus. */
function exposition(samples: readonly Sample[]): string {
  return samples
    .map(({ name, labels, value }) => {
      const pairs = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`);
      return `${name}{${pairs.join(',')}} ${value}\n`;
    })
    .join('');
}

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { expect, it, onTestFinished } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { temporaryFolder } from '../store/places.ts';

const here = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const SERVER = here('examples/observability/server.mjs');
const CHROMIUM = '/usr/bin/chromium';

interface Panel {
  readonly title: string;
  readonly targets: readonly { readonly expr: string }[];
}
const dashboard = JSON.parse(readFileSync(here('examples/observability/dashboard.json'), 'utf8')) as {
  readonly panels: readonly Panel[];
};

interface Metric {
  readonly name: string;
  readonly unit?: string;
  readonly [kind: string]: unknown;
}
interface Sample {
  readonly labels: Record<string, string>;
  readonly value: number;
}

/** Receives OTLP over HTTP in JSON, and names metrics and labels as the collector's Prometheus exporter does. */
async function receiver() {
  const samples = new Map<string, Map<string, Sample>>();
  let traces = 0;
  const http = createServer(async (request, response) => {
    const body = (await json(request)) as {
      readonly resourceSpans?: unknown[];
      readonly resourceMetrics?: {
        readonly resource: { readonly attributes: { key: string; value: { stringValue?: string } }[] };
        readonly scopeMetrics: { readonly metrics: Metric[] }[];
      }[];
    };
    traces += body.resourceSpans?.length ?? 0;
    for (const { resource, scopeMetrics } of body.resourceMetrics ?? [])
      for (const metric of scopeMetrics.flatMap(({ metrics }) => metrics))
        take(metric, labelsOf(resource.attributes));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
  });
  const under = (name: string) => name.replace(/[^a-zA-Z0-9_]/g, '_');
  const labelsOf = (attributes: readonly { key: string; value: object }[]) =>
    Object.fromEntries(attributes.map(({ key, value }) => [under(key), String(Object.values(value)[0])]));
  const take = (metric: Metric, resource: Record<string, string>): void => {
    const kind = ['sum', 'gauge', 'histogram'].find((each) => metric[each] !== undefined) ?? '';
    const { dataPoints } = metric[kind] as {
      dataPoints: {
        attributes: { key: string; value: object }[];
        count?: number;
        asInt?: number;
        asDouble?: number;
      }[];
    };
    const base = under(metric.name) + (metric.unit === 's' ? '_seconds' : '');
    const names =
      kind === 'histogram' ? [`${base}_count`, `${base}_bucket`] : [kind === 'sum' ? `${base}_total` : base];
    for (const point of dataPoints)
      for (const name of names) {
        const labels = {
          ...resource,
          ...labelsOf(point.attributes),
          ...(name.endsWith('_bucket') && { le: '+Inf' }),
        };
        const value = Number(point.count ?? point.asInt ?? point.asDouble ?? 0);
        const known = samples.get(name) ?? new Map<string, Sample>();
        samples.set(name, known.set(JSON.stringify(labels), { labels, value }));
      }
  };
  return {
    endpoint: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    of: (name: string): Sample[] => [...(samples.get(name)?.values() ?? [])],
    traces: () => traces,
  };
}

/** Returns the metric and the labels that a panel needs. */
function needs({ targets: [target] }: Panel): { name: string; labels: string[] } {
  const expr = target?.expr ?? '';
  const name =
    /\b(?:mcp|valise)_\w+(?:_count|_bucket|_total|_pending)\b|\bvalise_pending\b/.exec(expr)?.[0] ?? '';
  const labels = (/by \(([^)]*)\)/.exec(expr)?.[1] ?? '').split(',').map((each) => each.trim());
  return { name, labels };
}

it('Every panel of the dashboard shows something for a fleet of three instances that are called', async () => {
  await build();
  const { folder, remove } = temporaryFolder();
  onTestFinished(remove);
  const collected = await receiver();
  const env = {
    ...process.env,
    OTEL_EXPORTER_OTLP_ENDPOINT: collected.endpoint,
    EXPORT_INTERVAL: '200',
    STORE: `sqlite:${join(folder, 'state.db')}`,
    VALISE_KEYS: generateKey(),
  };
  const urls = await Promise.all(
    [1, 2, 3].map(async () => {
      const child = spawn(process.execPath, [SERVER], { env, stdio: ['ignore', 'pipe', 'inherit'] });
      onTestFinished(() => void child.kill('SIGKILL'));
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      return String(line).trim();
    }),
  );
  const valise = await openValise({ store: memoryStore(), allowLocal: true });
  valise.on('warning', () => {});
  onTestFinished(() => valise.close());
  for (const url of urls) {
    const client = new Client(
      { name: 'host', version: '1.0.0' },
      { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    client.setRequestHandler('elicitation/create', async () => ({
      action: 'accept' as const,
      content: { sure: true },
    }));
    await valise.connect(client, url);
    await client.callTool({ name: 'add', arguments: { item: 'tea' } });
    await client.callTool({ name: 'refuse' });
    await client.callTool({ name: 'order', arguments: {} });
    const forged = { name: 'order', arguments: {}, requestState: 'forged', inputResponses: {} };
    await client.callTool(forged as never).catch(() => undefined);
    await client.close();
  }
  for (const panel of dashboard.panels) {
    const { name, labels } = needs(panel);
    const found = () =>
      collected.of(name).filter((sample) => labels.every((label) => sample.labels[label] !== undefined));
    await expect
      .poll(() => found().length, { timeout: 10_000, message: `${panel.title}: ${name}` })
      .toBeGreaterThan(0);
  }
  const instances = () =>
    new Set(
      collected
        .of('mcp_server_operation_duration_seconds_count')
        .map(({ labels }) => labels['service_instance_id']),
    );
  await expect.poll(() => instances().size, { timeout: 10_000 }).toBe(3);
  await expect.poll(() => collected.traces(), { timeout: 10_000 }).toBeGreaterThan(0);
  if (process.env['VALISE_SCREENSHOT'] && existsSync(CHROMIUM)) shoot(folder, collected.of);
}, 90_000);

/** Draws the panels as bars, and takes the picture that docs/telemetry.md shows. */
function shoot(folder: string, of: (name: string) => Sample[]): void {
  const panels = dashboard.panels.map((panel) => {
    const { name, labels } = needs(panel);
    const rows = new Map<string, number>();
    for (const sample of of(name)) {
      const wanted = labels.filter((label) => label !== 'le');
      if (!wanted.every((label) => sample.labels[label] !== undefined)) continue;
      const key = wanted.map((label) => sample.labels[label]?.slice(0, 28)).join(' · ');
      rows.set(key, (rows.get(key) ?? 0) + sample.value);
    }
    const most = Math.max(1, ...rows.values());
    const bars = [...rows].map(
      ([key, value]) =>
        `<div class=r><span>${key.replace(/[<&]/g, '')}</span><i style="width:${(value / most) * 180}px"></i>${value}</div>`,
    );
    return `<section><h2>${panel.title}</h2><code>${name}</code>${bars.join('')}</section>`;
  });
  const page = join(folder, 'page.html');
  const style =
    'body{font:13px sans-serif;background:#111217;color:#ccccdc;display:grid;grid-template-columns:1fr 1fr;gap:10px;margin:12px}section{background:#181b1f;padding:10px}h2{font-size:14px;margin:0 0 4px}code{color:#888}.r{display:flex;gap:8px;align-items:center;margin:4px 0}span{width:230px;overflow:hidden;white-space:nowrap}i{background:#5794f2;height:12px}';
  writeFileSync(page, `<!doctype html><meta charset=utf-8><style>${style}</style>${panels.join('')}`);
  const flags = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--hide-scrollbars',
    '--window-size=1100,900',
  ];
  execFileSync(CHROMIUM, [...flags, `--screenshot=${here('docs/telemetry.png')}`, `file://${page}`], {
    stdio: 'ignore',
    timeout: 30_000,
  });
}

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { expect, it, onTestFinished } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { noServices, startPrometheus } from '../services.ts';
import { temporaryFolder } from '../store/places.ts';
import { collectorConfig, type Sample, startCollector } from './collector.ts';

const here = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const SERVER = here('examples/observability/server.mjs');
const CHROMIUM = '/usr/bin/chromium';

interface Panel {
  readonly title: string;
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}
const dashboard = JSON.parse(readFileSync(here('examples/observability/dashboard.json'), 'utf8')) as {
  readonly panels: readonly Panel[];
};

/** Starts an instance of the example. Without an endpoint, it reports to OpenTelemetry's default address. */
async function startInstance(folder: string, keys: string, endpoint?: string): Promise<string> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: _, ...rest } = process.env;
  const env = {
    ...rest,
    ...(endpoint && { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }),
    EXPORT_INTERVAL: '200',
    STORE: `sqlite:${join(folder, 'state.db')}`,
    VALISE_KEYS: keys,
  };
  const child = spawn(process.execPath, [SERVER], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return String(line).trim();
}

/** Calls every tool of an instance, and sends it a state that it did not make. */
async function useInstance(url: string): Promise<void> {
  const valise = await openValise({ store: memoryStore(), allowLocal: true });
  valise.on('warning', () => {});
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
  await valise.close();
}

it('The collector configuration connects a receiver, processors and exporters that it defines', () => {
  const { receivers, processors, exporters, service } = collectorConfig;
  for (const pipeline of Object.values(service.pipelines)) {
    for (const name of pipeline.receivers) expect(receivers).toHaveProperty(name);
    for (const name of pipeline.processors) expect(processors).toHaveProperty(name);
    for (const name of pipeline.exporters) expect(exporters).toHaveProperty(name);
  }
  // The dashboard tells instances apart by a resource attribute.
  expect(exporters.prometheus.resource_to_telemetry_conversion).toEqual({ enabled: true });
});

it('An instance reports by default to the address at which the collector configuration receives', async () => {
  await build();
  const { folder, remove } = temporaryFolder();
  onTestFinished(remove);
  const [host, port] = collectorConfig.receivers.otlp.protocols.http.endpoint.split(':');
  expect(host).toBe('127.0.0.1');
  const listening = () => startCollector(Number(port)).catch(() => undefined);
  // Another run on this machine may be using the port.
  let collected: Awaited<ReturnType<typeof listening>>;
  await expect
    .poll(async () => (collected ??= await listening()) !== undefined, { timeout: 30_000 })
    .toBe(true);
  const url = await startInstance(folder, generateKey());
  await useInstance(url);
  await expect.poll(() => collected?.traces(), { timeout: 10_000 }).toBeGreaterThan(0);
  await expect.poll(() => collected?.samples().length, { timeout: 10_000 }).toBeGreaterThan(0);
}, 90_000);

it.skipIf(noServices)(
  'Prometheus answers the query of every panel of the dashboard, for a fleet of three instances that are called',
  async () => {
    await build();
    const { folder, remove } = temporaryFolder();
    onTestFinished(remove);
    const collected = await startCollector();
    const prometheus = await startPrometheus({ target: collected.address });
    onTestFinished(() => prometheus.stop());
    const keys = generateKey();
    const endpoint = `http://${collected.address}`;
    const urls = await Promise.all([1, 2, 3].map(() => startInstance(folder, keys, endpoint)));
    for (const url of urls) await useInstance(url);
    const query = async (expr: string): Promise<Record<string, string>[]> => {
      const search = new URLSearchParams({ query: expr.replaceAll('$__rate_interval', '30s') });
      const response = await fetch(`${prometheus.url}/api/v1/query?${search}`);
      const { status, data, error } = (await response.json()) as {
        status: string;
        error?: string;
        data?: { result: { metric: Record<string, string> }[] };
      };
      expect([status, error]).toEqual(['success', undefined]);
      return (data?.result ?? []).map(({ metric }) => metric);
    };
    for (const { title, targets } of dashboard.panels) {
      for (const { expr, legendFormat } of targets) {
        const labels = [...legendFormat.matchAll(/{{(\w+)}}/g)].map(([, label]) => label as string);
        const shown = async () =>
          (await query(expr)).filter((metric) => labels.every((label) => metric[label] !== undefined)).length;
        await expect.poll(shown, { timeout: 15_000, message: `${title}: ${expr}` }).toBeGreaterThan(0);
      }
    }
    const byInstance = dashboard.panels.find(({ title }) => title === 'Requests per second, by instance');
    await expect
      .poll(async () => (await query(byInstance?.targets[0]?.expr ?? '')).length, { timeout: 15_000 })
      .toBe(3);
    if (process.env['VALISE_SCREENSHOT'] && existsSync(CHROMIUM)) shoot(folder, collected.samples());
  },
  120_000,
);

/** Draws the panels as bars, and takes the picture that docs/telemetry.md shows. */
function shoot(folder: string, samples: readonly Sample[]): void {
  const panels = dashboard.panels.map(({ title, targets: [target] }) => {
    const { expr = '', legendFormat = '' } = target ?? {};
    const name = /\b(?:mcp|valise)_(?!side)\w+/.exec(expr.replace(/by \([^)]*\)/, ''))?.[0] ?? '';
    const labels = [...legendFormat.matchAll(/{{(\w+)}}/g)].map(([, label]) => label as string);
    const rows = new Map<string, number>();
    for (const sample of samples) {
      if (sample.name !== name || (sample.labels['le'] ?? '+Inf') !== '+Inf') continue;
      if (!labels.every((label) => sample.labels[label] !== undefined)) continue;
      const key = labels.map((label) => sample.labels[label]?.slice(0, 28)).join(' · ');
      rows.set(key, (rows.get(key) ?? 0) + sample.value);
    }
    const most = Math.max(1, ...rows.values());
    const bars = [...rows].map(
      ([key, value]) =>
        `<div class=r><span>${key.replace(/[<&]/g, '')}</span><i style="width:${(value / most) * 180}px"></i>${value}</div>`,
    );
    return `<section><h2>${title}</h2><code>${name}</code>${bars.join('')}</section>`;
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
    '--window-size=1100,600',
  ];
  execFileSync(CHROMIUM, [...flags, `--screenshot=${here('docs/telemetry.png')}`, `file://${page}`], {
    stdio: 'ignore',
    timeout: 30_000,
  });
}

import { Session } from 'node:inspector/promises';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { openValise } from '../dist/client/index.js';
import { echoHttp } from './link/server.mjs';
const kind = process.argv[2]; const N = Number(process.argv[3] ?? 8000); const show = process.argv[4] ?? 'OWN';
const options = kind === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : undefined;
const valise = await openValise({ store: 'memory:', allowLocal: true });
async function make(withValise) {
  const { url, close } = await echoHttp(kind === 'v1' ? 'v1' : 'v2', withValise, false);
  const client = new (kind === 'v1' ? ClientV1 : ClientV2)({ name: 'bench', version: '1.0.0' }, options);
  const transport = new (kind === 'v1' ? HttpV1 : HttpV2)(url);
  if (withValise) await valise.connect(client, transport); else await client.connect(transport);
  return { run: () => client.callTool({ name: 'echo', arguments: { text: 'What travels with the call is small, and what it says is plain.' } }), close: async () => { await client.close(); close(); } };
}
const all = { ours: await make(true), stock: await make(false) };
async function go(run, n) { let i = 0; await Promise.all(Array.from({ length: 8 }, async () => { while (i++ < n) await run(); })); }
for (let r = 0; r < 14; r++) { await go(all.ours.run, 600); await go(all.stock.run, 600); }
const s = new Session(); s.connect();
await s.post('Profiler.enable'); await s.post('Profiler.setSamplingInterval', { interval: 200 });
const profs = {};
for (const w of ['ours', 'stock']) profs[w] = { nodes: new Map(), cpu: 0, n: 0 };
const R = 20;
for (let r = 0; r < R; r++) for (const w of r % 2 ? ['ours', 'stock'] : ['stock', 'ours']) {
  await s.post('Profiler.start'); const c = process.cpuUsage();
  await go(all[w].run, N / R);
  const d = process.cpuUsage(c); const { profile } = await s.post('Profiler.stop');
  const p = profs[w]; p.cpu += d.user + d.system; p.n += N / R;
  const dt = new Map(); profile.samples.forEach((id, i) => dt.set(id, (dt.get(id) ?? 0) + profile.timeDeltas[i]));
  const byId = new Map(profile.nodes.map((n) => [n.id, n])); const par = new Map(); for (const n of profile.nodes) for (const c of n.children ?? []) par.set(c, n.id);
  const isOwn = (n) => n?.callFrame.url.includes('/main/dist/');
  p.groups ??= new Map();
  for (const n of profile.nodes) { if (!isOwn(n)) continue; const t = dt.get(n.id) ?? 0; if (!t) continue; let top = n; while (isOwn(byId.get(par.get(top.id)))) top = byId.get(par.get(top.id)); const above = byId.get(par.get(top.id)); const g = top.callFrame.functionName + ':' + (top.callFrame.lineNumber + 1) + ' < ' + above?.callFrame.functionName + ' ' + above?.callFrame.url.split('/').slice(-3).join('/'); const e = p.groups.get(g) ?? { t: 0, f: new Map() }; e.t += t; const fn = n.callFrame.functionName + ':' + (n.callFrame.lineNumber + 1); e.f.set(fn, (e.f.get(fn) ?? 0) + t); p.groups.set(g, e); }
  for (const n of profile.nodes) { const t = dt.get(n.id) ?? 0; const { functionName, url, lineNumber } = n.callFrame; const u = url.includes('/main/dist/') ? 'OWN/' + url.split('/main/dist/')[1] : url.replace(/.*\/node_modules\//, 'nm/'); const key = `${functionName || '(anon)'} ${u}:${lineNumber + 1}`; p.nodes.set(key, (p.nodes.get(key) ?? 0) + t); }
}
const cat = (k) => k.startsWith('(garbage') ? 'gc' : k.startsWith('(program') ? 'program' : k.startsWith('(idle') ? 'idle' : k.includes(' OWN/') ? 'OWN' : k.includes('nm/zod') ? 'zod' : k.includes('modelcontext') ? 'sdk' : k.includes('undici') ? 'undici' : k.includes('node:') ? 'node' : k.includes('nm/') ? 'othermod' : 'native';
const sum = {};
for (const w in profs) for (const [k, t] of profs[w].nodes) { (sum[cat(k)] ??= {})[w] = (sum[cat(k)]?.[w] ?? 0) + t / profs[w].n; }
console.log(kind, 'cpu/call', profs.ours.cpu / profs.ours.n, profs.stock.cpu / profs.stock.n, 'ratio', (profs.stock.cpu / profs.ours.cpu).toFixed(3));
for (const c in sum) console.log(c.padEnd(10), (sum[c].ours ?? 0).toFixed(1).padStart(8), (sum[c].stock ?? 0).toFixed(1).padStart(8), ((sum[c].ours ?? 0) - (sum[c].stock ?? 0)).toFixed(1).padStart(8));
const keys = new Set([...profs.ours.nodes.keys(), ...profs.stock.nodes.keys()]);
const rows = [...keys].map((k) => [k, (profs.ours.nodes.get(k) ?? 0) / profs.ours.n, (profs.stock.nodes.get(k) ?? 0) / profs.stock.n]).map(([k, a, b]) => [k, a, b, a - b]).sort((x, y) => y[3] - x[3]);
for (const f of show.split(',')) { console.log('== ' + f); for (const [k, a, b, d] of rows.filter((r) => cat(r[0]) === f && Math.abs(r[3]) > 0.4)) console.log(d.toFixed(2).padStart(8), a.toFixed(2).padStart(8), b.toFixed(2).padStart(8), k); }
for (const [g, e] of [...profs.ours.groups].sort((a, b) => b[1].t - a[1].t).slice(0, 14)) { console.log((e.t / profs.ours.n).toFixed(2).padStart(7), g); console.log('          ', [...e.f].sort((a, b) => b[1] - a[1]).slice(0, 14).map(([f, t]) => f + ' ' + (t / profs.ours.n).toFixed(2)).join(', ')); }
for (const w in all) await all[w].close(); await valise.close(); process.exit(0);

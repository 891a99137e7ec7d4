/** A host that calls a tool and never answers what it is asked: `node … URL STORE v1|v2 legacy|modern`. */
import { openValise } from 'mcp-valise/client';
import { askable, RESOLVE } from './rounds-stage.ts';

const [url, store, client, era] = process.argv.slice(2) as [string, string, 'v1' | 'v2', 'legacy' | 'modern'];
const valise = await openValise({ store });
const host = askable(client, era, ({ message }) => {
  process.stdout.write(`asked ${message}\n`);
  return new Promise<object>(() => {});
});
await valise.connect(host, url);
await host.callTool({ name: 'update_work_item', arguments: RESOLVE });

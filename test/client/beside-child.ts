/**
 * A host in a process of its own: it connects, says `session ID` and whether it `resumed`, counts once with each line of its
 * input, and lives until that ends. What it is warned of and what it hears of tools it says too.
 */
import { createInterface } from 'node:readline';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { openValise } from 'mcp-valise/client';
import { count } from './sessionful.ts';

/** What a child is told, as JSON in its first argument. */
export interface Orders {
  readonly kind: string;
  readonly store: string;
  readonly url: string;
  readonly resume: true | 'alone';
}

const { kind, store, url, resume } = JSON.parse(process.argv[2] ?? '') as Orders;
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const info = { name: 'beside', version: '1.0.0' };
const onChanged = (): void => say('tools changed');
const listChanged = { tools: { autoRefresh: false, debounceMs: 0, onChanged } };
const client =
  kind === 'v1'
    ? (new ClientV1(info, { listChanged }) as unknown as ClientV2)
    : new ClientV2(info, { listChanged });

const valise = await openValise({ store });
valise.on('warning', ({ what, next }) => say(`warning ${what} ${next}`));
valise.on('resumed', () => say('resumed'));
valise.on('renewed', () => say('renewed'));
await valise.connect(client, url, { resume });
say(`session ${client.transport?.sessionId}`);
for await (const _ of createInterface({ input: process.stdin })) say(`count ${await count(client)}`);
await client.close();
await valise.close();
say('closed');

/**
 * A host that calls `increment` until it has done so often enough, and says what it sees, a line each:
 * `ready`, `page` (the user was asked to sign in), `count N`, `done`. It begins with a line on its input.
 */
import { createInterface } from 'node:readline';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { type ClientValiseOptions, openValise } from 'mcp-valise/client';
import { openStore } from 'mcp-valise/store';
import { ask, signIn } from '../client/vault.ts';

/** What a child is told, as JSON in its first argument. */
export interface Orders {
  readonly sdk: 'v1' | 'v2';
  readonly url: string;
  readonly store: string;
  /** What its keys in a shared store start with. */
  readonly prefix?: string | undefined;
  /** Seals the store; without them secrets go to the keychain. */
  readonly keys?: string | undefined;
  readonly calls: number;
}

const { sdk, url, store: at, prefix, keys, calls } = JSON.parse(process.argv[2] ?? '') as Orders;
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const info = { name: 'child', version: '1.0.0' };
const client = sdk === 'v2' ? new ClientV2(info) : (new ClientV1(info) as unknown as ClientV2);

say('ready');
const input = createInterface({ input: process.stdin });
await new Promise<void>((resolve) => input.once('line', () => resolve()));
input.close();

const store = await openStore(at, { ...(prefix !== undefined && { prefix }), keys });
const options: ClientValiseOptions = { store, ...(keys !== undefined && { secrets: 'store' }) };
const valise = await openValise(options);
const redirect = async (page: URL): Promise<void> => {
  say('page');
  await signIn(page);
};
await valise.connect(client, url, { auth: { redirect } });
for (let call = 0; call < calls; call++) say(`count ${await ask(client, 'increment')}`);
await client.close();
await valise.close();
await store.close();
say('done');

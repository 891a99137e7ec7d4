import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { openStore } from 'mcp-valise/store';
import { type Major, servers } from './resume-instance.ts';

/** An instance in a process of its own, for killing: `resume-child.ts <major> <session> <store>`. Tells its port; a line opens the gate. */
const [major, session = '', url = ''] = process.argv.slice(2);
const gate = new Promise<void>((resolve) => void process.stdin.once('data', () => resolve()));
const handle = await servers[major as Major](session, await openStore(url), gate);
const http = createServer(getRequestListener((request) => handle(request)));
http.listen(0, '127.0.0.1', () => console.log((http.address() as AddressInfo).port));

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type ClientSetup, play, type Visit } from './visits.ts';

/** A command for the suites to start their clients with, and how to end it. */
export interface Desk {
  readonly command: string;
  close(): Promise<void>;
}

/**
 * Plays the clients of a suite in this process. The command that the suite starts for each scenario only says here what
 * it was started for, and waits: so a run of dozens of clients loads the SDKs once.
 */
export async function openDesk(setup: ClientSetup): Promise<Desk> {
  const server = createServer(async (request, response) => {
    try {
      await play(JSON.parse(await text(request)) as Visit, setup);
      response.end();
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const launcher = fileURLToPath(new URL('launch.mjs', import.meta.url));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return {
    command: `'${process.execPath}' '${launcher}' ${address}`,
    async close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestProject } from 'vitest/node';
import { type ServiceKind, type Services, startServices } from '../scripts/services.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    services: string;
  }
  interface TaskMeta {
    /** Why the test is skipped, if it is; `npm run trace` asks for it where the title names a row of the ledger. */
    skipReason?: string;
  }
}

/**
 * Starts Redis and PostgreSQL for the run, each when the first test file asks for it and once for all files;
 * a run that needs neither does not wait for them.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = new Map<ServiceKind, Promise<Services>>();
  const start = (kind: ServiceKind): Promise<Services> => {
    let services = running.get(kind);
    if (!services) running.set(kind, (services = startServices([kind])));
    return services;
  };
  const desk = createServer(async (request, response) => {
    try {
      const kind = request.url === '/redis' ? 'redis' : 'postgres';
      response.end((await start(kind)).urls[kind]);
    } catch (error) {
      response.writeHead(500).end((error as Error).message);
    }
  }).listen(0, '127.0.0.1');
  await once(desk, 'listening');
  project.provide('services', `http://127.0.0.1:${(desk.address() as AddressInfo).port}`);

  return async () => {
    desk.closeAllConnections();
    desk.close();
    const outcomes = await Promise.allSettled(running.values());
    await Promise.all(outcomes.map((outcome) => outcome.status === 'fulfilled' && outcome.value.stop()));
  };
}

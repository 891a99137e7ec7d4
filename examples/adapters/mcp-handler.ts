/** mcp-handler: clients subscribe to events at any instance, and a worker at any instance delivers them. */
import { createHmac, randomUUID } from 'node:crypto';
import {
  createMcpHandler,
  type ExperimentalMcpEventDefinition,
  experimental_registerMcpEvents,
  experimental_validateMcpEventDelivery,
} from 'mcp-handler';
import { subscriptionStore } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';
import { z } from 'zod';

const changed: ExperimentalMcpEventDefinition = {
  name: 'note.changed',
  inputSchema: z.object({ notebook: z.string() }),
  payloadSchema: z.object({ text: z.string() }),
  authorize: () => true,
};

/** Sends one signed message to a webhook, after https://www.standardwebhooks.com. */
async function post(
  { id, url, secret }: { id: string; url: string; secret: string },
  body: object,
  webhookId: string,
): Promise<Response> {
  const text = JSON.stringify(body);
  const time = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const signature = createHmac('sha256', key).update(`${webhookId}.${time}.${text}`).digest('base64');
  return fetch(url, {
    method: 'POST',
    redirect: 'error',
    headers: {
      'content-type': 'application/json',
      'webhook-id': webhookId,
      'webhook-timestamp': time,
      'webhook-signature': `v1,${signature}`,
      'x-mcp-subscription-id': id,
    },
    body: text,
  });
}

/** The handler of one instance. `withMcpAuth` of mcp-handler says who asks. */
export function openHandler(store: Store): (request: Request) => Promise<Response> {
  const subscriptions = subscriptionStore(store);
  return createMcpHandler((server) => {
    experimental_registerMcpEvents(server, {
      events: [changed],
      getPrincipal: ({ extra }) => String(extra?.['user']),
      subscriptions,
      delivery: {
        async verifyEndpoint(target) {
          const challenge = randomUUID();
          const response = await post(target, { type: 'verification', challenge }, randomUUID());
          const answer = (await response.json()) as { challenge?: string };
          return answer.challenge === challenge
            ? { verified: true }
            : { verified: false, reason: 'challenge_failed' };
        },
      },
    });
  });
}

/** Tells all who subscribed to a notebook of a new text. Any instance can, whichever they subscribed at. */
export async function deliver(store: Store, notebook: string, text: string, cursor: string): Promise<number> {
  const subscriptions = subscriptionStore(store);
  let delivered = 0;
  for await (const subscription of subscriptions.active(changed.name)) {
    if (subscription.arguments['notebook'] !== notebook) continue;
    const payload = { text };
    await experimental_validateMcpEventDelivery({ event: changed, subscription, payload });
    const eventId = randomUUID();
    const event = { eventId, name: changed.name, timestamp: new Date().toISOString(), data: payload, cursor };
    const { ok } = await post(subscription, event, eventId);
    if (!ok) continue;
    await subscriptions.delivered(subscription, { cursor });
    delivered++;
  }
  return delivered;
}

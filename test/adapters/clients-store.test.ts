import type { AddressInfo } from 'node:net';
import type { OAuthRegisteredClientsStore } from '@modelcontextprotocol/sdk/server/auth/clients.js';
import { clientRegistrationHandler } from '@modelcontextprotocol/sdk/server/auth/handlers/register.js';
import express from 'express';
import { clientsStore } from 'mcp-valise/adapters';
import { memoryStore } from 'mcp-valise/store';
import { virtualClock } from 'mcp-valise/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { places } from './places.ts';

const metadata = { redirect_uris: ['http://127.0.0.1/callback'], client_name: 'Ada', format: 'own' };

describe.each(places)('clientsStore on %s', (_, share) => {
  it('gives every instance the clients that registered with one, through the handler of the SDK', async () => {
    const open = share();
    const first: OAuthRegisteredClientsStore = clientsStore(await open());
    const second = clientsStore(await open());
    const app = express().use('/register', clientRegistrationHandler({ clientsStore: first }));
    const http = app.listen(0, '127.0.0.1');
    onTestFinished(() => void http.close());
    await new Promise((resolve) => http.once('listening', resolve));
    const response = await fetch(`http://127.0.0.1:${(http.address() as AddressInfo).port}/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(metadata),
    });
    const client = (await response.json()) as { client_id: string; client_secret: string };
    expect(response.status).toBe(201);
    expect(await second.getClient(client.client_id)).toEqual(client);
    expect(client.client_secret).toMatch(/^[0-9a-f]{64}$/);
    expect(await second.getClient('made-up')).toBeUndefined();
  });

  it('gives a client without an id one, and does not let another take it', async () => {
    const clients = clientsStore(await share()());
    const client = await clients.registerClient(metadata);
    expect(await clients.getClient(client.client_id)).toMatchObject(metadata);
    const thief = { client_id: client.client_id, redirect_uris: ['https://thief.example'] };
    await expect(clients.registerClient(thief)).rejects.toMatchObject({ code: 'invalid-argument' });
    expect(await clients.getClient(client.client_id)).toMatchObject(metadata);
  });

  it('refuses clients beyond maxClients, also when they come to two instances at once, and keeps those it has', async () => {
    const open = share();
    const instances = [await open(), await open()].map((store) => clientsStore(store, { maxClients: 5 }));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 12 }, (_, n) =>
        (instances[n % 2] as (typeof instances)[0]).registerClient(metadata),
      ),
    );
    const registered = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    expect(registered).toHaveLength(5);
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'limit-reached' },
    });
    for (const { client_id } of registered)
      expect(await instances[0]?.getClient(client_id)).toMatchObject({ client_id });
  });
});

describe('clientsStore', () => {
  it('forgets a client that is not used, keeps one that is, and has room again', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const clients = clientsStore(memoryStore(), { ttl: '10d', maxClients: 2 });
    const used = await clients.registerClient(metadata);
    const unused = await clients.registerClient(metadata);
    for (let day = 0; day < 20; day += 4) {
      await clock.advance('4d');
      expect(await clients.getClient(used.client_id)).toBeDefined();
    }
    expect(await clients.getClient(unused.client_id)).toBeUndefined();
    await clients.registerClient(metadata);
    await expect(clients.registerClient(metadata)).rejects.toMatchObject({ code: 'limit-reached' });
  });

  it('refuses metadata over maxBytes', async () => {
    const clients = clientsStore(memoryStore(), { maxBytes: 1024 });
    const large = { ...metadata, client_name: 'x'.repeat(2000) };
    await expect(clients.registerClient(large)).rejects.toMatchObject({ code: 'too-large' });
  });
});

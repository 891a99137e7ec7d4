import { expect, it } from 'vitest';
import { registerOnce } from '../../src/client/oauth/provider.ts';

/** An authorization server that counts its clients. */
function registrar(status = 201) {
  let clients = 0;
  const fetch = registerOnce(async () => Response.json({ client_id: `client-${++clients}` }, { status }));
  const register = async (redirect: string): Promise<string> => {
    const body = JSON.stringify({ redirect_uris: [redirect] });
    const response = await fetch('https://auth.example.com/reg', { method: 'POST', body });
    return ((await response.json()) as { client_id: string }).client_id;
  };
  return { register, clients: () => clients };
}

it('A stream and a call that need a registration at the same time share one', async () => {
  const { register, clients } = registrar();
  const together = await Promise.all([register('http://127.0.0.1/a'), register('http://127.0.0.1/a')]);
  expect([...together, await register('http://127.0.0.1/a')]).toEqual(Array(3).fill('client-1'));
  expect(clients()).toBe(1);
});

it('Different registrations are sent separately', async () => {
  const { register } = registrar();
  expect(await register('http://127.0.0.1/a')).toBe('client-1');
  expect(await register('http://127.0.0.1/b')).toBe('client-2');
});

it('A registration that was refused is sent again', async () => {
  const { register, clients } = registrar(503);
  await register('http://127.0.0.1/a');
  await register('http://127.0.0.1/a');
  expect(clients()).toBe(2);
});

import { generateKey, type Sealer } from 'mcp-valise/seal';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createSealer } from '../../src/seal/index.ts';
import { SessionIds } from '../../src/server/http/transport-session.ts';

const ADA = { subject: 'ada' };
const capabilities = { elicitation: {} };
const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities },
} as const;

/** Ids of one server, and how often a seal was opened for them. */
function stage() {
  const sealer = createSealer({ keys: generateKey(), audience: 'test' });
  const open = vi.fn<Sealer['open']>((...args) => sealer.open(...args));
  const ids = new SessionIds({ ...sealer, open: open as Sealer['open'] });
  return { sealer, open, ids, mint: () => ids.mint(initialize, ADA) as string };
}

afterEach(() => void vi.useRealTimers());

describe('the session ids of the HTTP edge', () => {
  it('a session id of the HTTP edge is opened once a minute, however many requests send it', () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { ids, mint, open } = stage();
    const [one, other] = [mint(), mint()];
    const first = ids.open(one, ADA);
    expect(first.peer).toMatchObject({ capabilities, protocolVersion: '2025-11-25' });
    for (let at = 0; at < 10; at++) expect(ids.open(one, ADA)).toEqual(first);
    expect(ids.open(other, ADA).transportSession).not.toBe(first.transportSession);
    expect(open).toHaveBeenCalledTimes(2);
    vi.setSystemTime(Date.now() + 61_000);
    expect(ids.open(one, ADA)).toEqual(first);
    expect(open).toHaveBeenCalledTimes(3);
  });

  it('a session id of the HTTP edge is refused after its expiry, even if it was accepted before', () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { ids, mint } = stage();
    const id = mint();
    ids.open(id, ADA);
    vi.setSystemTime(Date.now() + 31 * 86_400_000);
    expect(() => ids.open(id, ADA)).toThrow();
  });

  it('a session id of the HTTP edge belongs to one principal, even after it has been opened', () => {
    const { ids, mint } = stage();
    const id = mint();
    for (const other of [{ subject: 'eve' }, undefined]) expect(() => ids.open(id, other)).toThrow('another');
    ids.open(id, ADA);
    for (const other of [{ subject: 'eve' }, undefined]) expect(() => ids.open(id, other)).toThrow('another');
  });

  it('an altered session id of the HTTP edge is refused every time', () => {
    const { ids, mint, open } = stage();
    const id = mint();
    ids.open(id, ADA);
    const altered = `${id.slice(0, -2)}${id.at(-2) === 'A' ? 'B' : 'A'}${id.at(-1)}`;
    for (const _ of [1, 2]) expect(() => ids.open(altered, ADA)).toThrow();
    expect(open).toHaveBeenCalledTimes(3);
  });

  it('session ids that no longer fit into memory are opened again and still accepted', () => {
    const { ids, mint, open } = stage();
    const first = mint();
    const session = ids.open(first, ADA);
    for (let at = 0; at < 2001; at++) ids.open(mint(), ADA);
    open.mockClear();
    expect(ids.open(first, ADA)).toEqual(session);
    expect(open).toHaveBeenCalledTimes(1);
  });
});

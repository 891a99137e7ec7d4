import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import type { Response } from '../../src/wire/index.ts';
import { type Running, start, startHttp } from './example.ts';
import { httpWire, stdioWire, type Wire } from './wire.ts';

/** The test vectors at the end of the sessions draft, as they stand there. */
interface Vector {
  readonly id: string;
  readonly input: {
    readonly request: {
      readonly id: number;
      readonly method: string;
      readonly params?: Record<string, unknown>;
    };
    readonly response: Response;
  };
}
const VECTORS = JSON.parse(
  readFileSync(new URL('../../spec/vectors/seed002.json', import.meta.url), 'utf8'),
) as Vector[];
const KEY = 'io.modelcontextprotocol/session';

/** A response with its ids, states and times put aside, so that what is left can be compared to the letter. */
function shape(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (name, inner: unknown) =>
      ['sessionId', 'state', 'expiresAt'].includes(name) && typeof inner === 'string' ? `<${name}>` : inner,
    ),
  );
}

const running: Running[] = [];
afterAll(async () => {
  for (const each of running) await each.stop('SIGTERM');
});

/** The newer era is v2's alone, and always without transport sessions. */
const SERVERS = [
  { sdk: 'v1', era: 'legacy', transports: ['stdio', 'http', 'http --stateless'] },
  { sdk: 'v2', era: 'legacy', transports: ['stdio', 'http', 'http --stateless'] },
  { sdk: 'v2', era: 'modern', transports: ['stdio', 'http'] },
] as const;
const WAYS = SERVERS.flatMap(({ sdk, era, transports }) =>
  transports.flatMap((transport) => ['sealed', 'stored'].map((mode) => ({ sdk, era, transport, mode }))),
);

describe.each(WAYS)(
  'the vectors of the draft, on $sdk ($era) over $transport, $mode',
  ({ sdk, era, transport, mode }) => {
    const vector = (id: string) => (VECTORS.find((each) => each.id === id) as Vector).input;
    /** To the letter; in the newer era the protocol itself adds to every result. */
    const expectLike = (answer: object, response: Response) =>
      era === 'legacy'
        ? expect(shape(answer)).toEqual(shape(response))
        : expect(shape(answer)).toMatchObject(shape(response) as object);
    let wire: Wire | undefined;
    const open = async (): Promise<Wire> => {
      const args = ['--sdk', sdk, '--mode', mode, ...transport.split(' ').slice(1)];
      if (transport === 'stdio') {
        const server = start('notebook', ['--stdio', ...args]);
        running.push(server);
        return stdioWire(server, era, {});
      }
      const server = await startHttp('notebook', args);
      running.push(server);
      return httpWire(server.url, era, {});
    };
    const send = async ({ request }: Vector['input'], session?: object) => {
      wire ??= await open();
      const params = session ? { ...request.params, _meta: { [KEY]: { ...session } } } : request.params;
      return { ...(await wire.request(request.method, params)), id: request.id };
    };
    let session: { sessionId: string; state: string } | undefined;

    it('[S-04] [S-24] creating a session matches the vector of the draft', async () => {
      const { response, request } = vector('seed002-create');
      const answer = await send({ request, response });
      expectLike(answer, response);
      ({ session } = (answer as unknown as { result: { session: NonNullable<typeof session> } }).result);
    });

    it('[S-07] [S-08] [S-09] [S-24] using a session and updating its state matches the vector of the draft', async () => {
      const { response, request } = vector('seed002-use');
      const { sessionId, state } = session!;
      const answer = await send({ request, response }, { sessionId, state });
      expectLike(answer, response);
      const { _meta } = (
        answer as unknown as { result: { _meta: Record<string, NonNullable<typeof session>> } }
      ).result;
      expect(_meta[KEY]?.sessionId).toBe(sessionId);
      expect(_meta[KEY]?.state).not.toBe(state);
    });

    it('[S-13] [S-24] session not found matches the vector of the draft', async () => {
      const { response, request } = vector('seed002-not-found');
      expect(await send({ request, response })).toEqual(response);
    });
  },
);

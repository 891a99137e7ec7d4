import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { LeaveOpen, openValise, type PendingRound } from 'mcp-valise/client';
import { CARRIERS } from 'mcp-valise/internal';
import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Example, Kit } from '../../examples/serve.ts';
import { callText, HOSTS } from '../e2e/hosts.ts';
import { type Ask, askable, stage } from '../e2e/rounds-stage.ts';
import { MAJORS } from '../server/majors.ts';

const accept = (value: string) => ({ action: 'accept', content: { value } });

/** A tool that asks two questions at once, then one, then two, then one; `done`: how often it went to its end. */
function mixed(done: { times: number }): Example {
  return {
    name: 'mixed',
    build({ McpServer, options }) {
      const valise = createValise({ name: 'mixed', ...options });
      const server = (): McpServer => {
        const made = valise.install(new McpServer({ name: 'mixed', version: '1.0.0' }));
        const order = valise.flow(async (flow) => {
          const ask = async (key: string): Promise<unknown> => {
            const schema = { type: 'object', properties: { value: { type: 'string' } } } as const;
            return (await flow.ask(key, { message: key, schema })).value;
          };
          const first = await Promise.all([ask('a'), ask('b')]);
          const second = await ask('c');
          const third = await Promise.all([ask('d'), ask('e')]);
          const fourth = await ask('f');
          await flow.once('order', () => {
            done.times += 1;
          });
          const kept = valise.jar.server;
          kept.set('orders', Number(kept.get('orders') ?? 0) + 1);
          const text = [...first, second, ...third, fourth].join() + kept.get('orders');
          return { content: [{ type: 'text' as const, text }] };
        });
        made.registerTool('order', {}, order as never);
        return made;
      };
      return { valise, server };
    },
  };
}

const CASES = HOSTS.flatMap((host) => (['http', 'one process'] as const).map((over) => ({ ...host, over })));

describe.each(CASES)(
  'a call that asks several questions at once and then one ($client, $era, $over)',
  (host) => {
    const { client, era, over } = host;
    const open = async (ask: Ask) => {
      const done = { times: 0 };
      const asked: string[] = [];
      const valise = await openValise({ store: memoryStore(), allowLocal: true });
      const keys = generateKey();
      const served =
        over === 'http' ? await stage({ sdk: 'v2', instances: 1, example: mixed(done) }) : undefined;
      const kit = { sdk: 'v2', McpServer, options: { keys }, flags: {} } as unknown as Kit;
      const built = await mixed(done).build(kit);
      const connect = async () => {
        const made = askable(client, era, (params) => {
          asked.push(params.message);
          return ask(params);
        });
        const [near, far] = MAJORS[1].Memory.createLinkedPair();
        if (era === 'modern') serveStdio(() => built.server(), { transport: far });
        else if (!served) await built.server().connect(far);
        await valise.connect(made, served ? (served.urls[0] as URL) : (near as never));
        onTestFinished(() => made.close());
        return made;
      };
      onTestFinished(async () => served?.close());
      return { valise, done, asked, connect, made: await connect() };
    };
    const messages = ({ questions }: PendingRound) =>
      questions.map(({ params }) => params?.['message']).join();
    const answersTo = ({ questions }: PendingRound) =>
      Object.fromEntries(
        questions.map(({ key, params }) => [key, accept(String(params?.['message']).toUpperCase())]),
      );
    const leave: Ask = () => {
      throw new LeaveOpen();
    };

    it.each(['on the same connection', 'on the next'])(
      'A call is answered round after round under one id, %s, without its handlers if answers are given',
      async (where) => {
        const { valise, done, asked, connect, made } = await open(leave);
        const error = await callText(made, 'order', {}).catch((error: unknown) => error);
        let [round] = (await valise.pending.list()) as [PendingRound];
        expect(error).toMatchObject({ data: { pending: round.id } });
        if (where === 'on the next') {
          await made.close();
          await connect();
        }
        asked.length = 0;
        const seen = [messages(round)];
        let result: unknown;
        while (result === undefined) {
          const next = await valise.pending.answer(round.id, answersTo(round));
          if (next.done) result = next.result;
          else {
            expect(next.round.id).toBe(round.id);
            expect((await valise.pending.list()).map(({ id, call }) => [id, call?.method])).toEqual([
              [round.id, 'tools/call'],
            ]);
            round = next.round;
            seen.push(messages(round));
          }
        }
        expect(seen).toEqual(['a,b', 'c', 'd,e', 'f']);
        expect(result).toMatchObject({ content: [{ text: 'A,B,C,D,E,F1' }] });
        expect([asked, await valise.pending.list(), done.times]).toEqual([[], [], 1]);
        // What the server had the client carry has come with the result.
        expect((await valise.jar.list()).map(({ key }) => key)).toEqual(['orders']);
      },
    );

    it.each(['c', 'd', 'f'])('A call has one pending round if the handlers leave "%s" open', async (stop) => {
      let isOpen = true;
      const { valise, done, made } = await open(({ message }) =>
        message === stop && isOpen ? leave({ message, requestedSchema: {} }) : accept(message),
      );
      const error = await callText(made, 'order', {}).catch((error: unknown) => error);
      const rounds = await valise.pending.list();
      expect(rounds.map(messages)).toEqual([stop === 'd' ? 'd,e' : stop]);
      expect(error).toMatchObject({ data: { pending: rounds[0]?.id } });
      isOpen = false;
      const next = await valise.pending.answer(rounds[0]?.id as string);
      expect(next).toMatchObject({ done: true, result: { content: [{ text: 'a,b,c,d,e,f1' }] } });
      expect([await valise.pending.list(), done.times]).toEqual([[], 1]);
    });

    it('Handlers answer all rounds, and nothing stays pending', async () => {
      const { valise, done, made } = await open(({ message }) => accept(message));
      expect(await callText(made, 'order', {})).toBe('a,b,c,d,e,f1');
      expect([await valise.pending.list(), done.times]).toEqual([[], 1]);
    });

    it('Concurrent calls have separate pending rounds', async () => {
      const { valise, done, made } = await open(({ message }) =>
        message === 'c' ? leave({} as never) : accept(message),
      );
      const calls = [1, 2, 3].map(() => callText(made, 'order', {}).catch((error: unknown) => error));
      const named = (await Promise.all(calls)).map(
        (error) => (error as { data?: { pending?: string } }).data?.pending,
      );
      const rounds = await valise.pending.list();
      expect(rounds.map(({ id }) => id).sort()).toEqual(named.sort());
      const answer = async ({ id, questions }: PendingRound): Promise<unknown> => {
        const next = await valise.pending.answer(id, answersTo({ questions } as PendingRound));
        return next.done ? next.result['content'] : answer(next.round);
      };
      const text = [{ type: 'text', text: expect.stringContaining('a,b,C,D,E,F') }];
      expect(await Promise.all(rounds.map(answer))).toEqual([text, text, text]);
      expect([await valise.pending.list(), done.times]).toEqual([[], 3]);
    });
  },
);

it.each(CARRIERS)(
  'A call with flow.until() after its answer continues without answers, carried by %s',
  async (carrier) => {
    const served = createValise({ name: 'test' });
    const server = served.install(new McpServer({ name: 'test', version: '1.0.0' }));
    let looks = 0;
    const approve = served.flow(async (flow) => {
      const schema = { type: 'object', properties: { value: { type: 'string' } } } as const;
      const { value } = await flow.ask('who', { message: 'Who?', schema });
      await flow.until('approval', () => (++looks > 3 ? true : undefined), { every: 1, hold: 0.5 });
      return { content: [{ type: 'text' as const, text: `${value} approved` }] };
    });
    server.registerTool('approve', {}, approve);
    const valise = await openValise({ store: memoryStore(), carriers: [carrier] });
    const host = askable('v2', 'legacy', () => {
      throw new LeaveOpen();
    });
    const [near, far] = MAJORS[1].Memory.createLinkedPair();
    await server.connect(far);
    await valise.connect(host, near);
    onTestFinished(() => host.close());
    await expect(callText(host, 'approve', {})).rejects.toThrow();
    const [{ id }] = (await valise.pending.list()) as [PendingRound];
    let next = await valise.pending.answer(id, accept('Ada'));
    while (!next.done) next = await valise.pending.answer(id, {});
    expect([next.result['content'], looks]).toEqual([[{ type: 'text', text: 'Ada approved' }], 4]);
    expect(await valise.pending.list()).toEqual([]);
  },
);

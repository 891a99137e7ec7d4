import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type HostKind, sdkHost } from './sdk-hosts.ts';
import { folder, VALISE } from './valise.ts';

const EVERYTHING = [
  process.execPath,
  join(import.meta.dirname, '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js'),
  'stdio',
] as const;
const DOCUMENT = 'demo://resource/static/document/features.md';

interface Failure {
  readonly code?: unknown;
  readonly message?: unknown;
}

/** Everything that passes between a host and a server, as the host sees it. */
async function exercise(kind: HostKind, command: readonly [string, ...string[]]) {
  const heard: { method: string; params: unknown }[] = [];
  const asked: unknown[] = [];
  let told = () => {};
  const { client, ask } = await sdkHost(kind, command, {
    capabilities: { sampling: {}, roots: {} },
    answers: {
      'sampling/createMessage': (params) => {
        asked.push(params);
        return { role: 'assistant', model: 'none', content: { type: 'text', text: 'sampled' } };
      },
      'roots/list': () => ({ roots: [{ uri: 'file:///somewhere', name: 'somewhere' }] }),
    },
    onNotification(method, params) {
      heard.push({ method, params });
      told();
    },
  });
  const hear = async (method: string, saying = ''): Promise<unknown> => {
    for (;;) {
      const found = heard.find(
        (each) => each.method === method && JSON.stringify(each.params).includes(saying),
      );
      if (found) return found.params;
      await new Promise<void>((resolve) => {
        told = resolve;
      });
    }
  };
  const refusal = (failure: Failure) => ({ code: failure.code, message: failure.message });
  const call = (name: string, args: object, options?: object) =>
    ask('tools/call', { name, arguments: args }, options);

  const progress: unknown[] = [];
  const onprogress = (step: unknown) => progress.push(step);
  await ask('logging/setLevel', { level: 'info' });
  return {
    introduction: [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()],
    tools: await ask('tools/list'),
    echo: await call('echo', { message: 'hi' }),
    structured: await call('get-structured-content', { location: 'Chicago' }),
    wrong: await call('echo', {}),
    resources: await ask('resources/list'),
    document: await ask('resources/read', { uri: DOCUMENT }),
    missing: await ask('resources/read', { uri: 'demo://nowhere' }).catch(refusal),
    prompts: await ask('prompts/list'),
    prompt: await ask('prompts/get', { name: 'args-prompt', arguments: { city: 'Ulm' } }),
    completion: await ask('completion/complete', {
      ref: { type: 'ref/prompt', name: 'completable-prompt' },
      argument: { name: 'department', value: 'S' },
    }),
    long: await call('trigger-long-running-operation', { duration: 0.2, steps: 4 }, { onprogress }),
    // The SDKs may see the last one only after the result.
    progress: progress.slice(0, 3),
    sampled: await call('trigger-sampling-request', { prompt: 'Say something' }),
    asked,
    // The server logs that it got this one.
    subscribed: await ask('resources/subscribe', { uri: DOCUMENT }),
    logged: await hear('notifications/message', 'Subscribe'),
    updating: await call('toggle-subscriber-updates', {}),
    updated: await hear('notifications/resources/updated'),
    pinged: await ask('ping'),
    unknown: await ask('nobody/knows', { this: 'method' }).catch(refusal),
  };
}

describe.each(['v1', 'v2', 'v2 auto'] as const)(
  'valise connect between a %s host and server-everything',
  (kind) => {
    it('passes on everything as it is without the bridge', { timeout: 60_000 }, async () => {
      const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
      const bridged = [
        process.execPath,
        VALISE,
        'connect',
        `stdio:${EVERYTHING.join(' ')}`,
        ...store,
      ] as const;
      const direct = await exercise(kind, EVERYTHING);
      expect(direct).toMatchObject({
        echo: { content: [{ text: 'Echo: hi' }] },
        progress: [{ progress: 1 }, { progress: 2 }, { progress: 3 }],
        asked: [{ systemPrompt: 'You are a helpful test server.' }],
        logged: { level: 'info' },
        updated: { uri: DOCUMENT },
        unknown: { code: -32601 },
      });
      expect(await exercise(kind, [...bridged])).toEqual(direct);
    });
  },
);

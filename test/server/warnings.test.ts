import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { generateKey, loadKeys } from 'mcp-valise/seal';
import { createValise, type ServerValiseOptions } from 'mcp-valise/server';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { call, endServers, FORMS, listen, post } from './http-stage.ts';

let printed: string[];

beforeEach(() => {
  printed = [];
  vi.stubEnv('VALISE_KEYS', '');
  vi.spyOn(process, 'emitWarning').mockImplementation((text) => void printed.push(String(text)));
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  endServers();
});

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a warning', () => {
  it('a warning is printed by the process if there is no listener', async () => {
    createValise({ name: 'test' });
    await settled();
    expect(printed).toEqual([expect.stringMatching(/There are no keys.*Set VALISE_KEYS/)]);
  });

  it('a warning is printed once for each text', async () => {
    const valise = createValise({ name: 'test', keys: generateKey() });
    const url = await listen((FORMS['v2, Node around the web standard'] as (typeof FORMS)[string])(valise));
    for (let times = 0; times < 3; times++) await post(url, call('ask'));
    expect(printed).toHaveLength(1);
  });

  it('a warning is not printed if there is a listener', async () => {
    const heard: string[] = [];
    createValise({ name: 'test', events: { warning: ({ what }) => heard.push(what) } });
    const later = createValise({ name: 'test' });
    later.on('warning', ({ what }) => heard.push(what));
    await settled();
    expect(heard).toHaveLength(2);
    expect(printed).toEqual([]);
  });
});

describe('keys in production', () => {
  const make = (options: Partial<ServerValiseOptions> = {}) => createValise({ name: 'test', ...options });

  it('createValise() throws in production without keys, and the error says what to do', () => {
    vi.stubEnv('NODE_ENV', 'production');
    expect(() => make()).toThrow(
      expect.objectContaining({
        code: 'no-keys',
        message: expect.stringMatching(/VALISE_KEYS.*'ephemeral'/),
      }),
    );
  });

  it('createValise() accepts keys, or the word ephemeral, in production', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    make({ keys: generateKey() });
    make({ keys: 'ephemeral' });
    await settled();
    expect(printed).toEqual([]);
    make({ keys: loadKeys() });
    vi.stubEnv('VALISE_KEYS', generateKey());
    make();
  });

  it('createValise() needs no keys while `next build` loads the routes', () => {
    vi.stubEnv('NODE_ENV', 'production');
    vi.stubEnv('NEXT_PHASE', 'phase-production-build');
    make();
    vi.stubEnv('NEXT_PHASE', 'phase-production-server');
    expect(() => make()).toThrow(expect.objectContaining({ code: 'no-keys' }));
  });
});

describe('errors that a tool throws', () => {
  const throwing = async (work: (valise: ReturnType<typeof createValise>) => unknown) => {
    const warnings: { what: string; next: string }[] = [];
    const valise = createValise({
      name: 'test',
      keys: generateKey(),
      events: { warning: (warning) => warnings.push(warning) },
    });
    const handler = createMcpHandler(() => {
      const server = valise.install(new McpServer({ name: 'test', version: '1.0.0' }));
      server.registerTool('work', {}, async () => {
        await work(valise);
        return { content: [] };
      });
      return server;
    });
    const url = await listen(toNodeHandler(handler) as never);
    const { message } = await post(url, call('work'));
    return { text: message['result'].content[0].text as string, warnings };
  };

  it('an error that a tool throws tells the model what happened, and the author what to do', async () => {
    const { text, warnings } = await throwing((valise) => valise.jar.session.set('n', 1));
    expect(text).toBe('This client does not carry state, and this server has no store to keep it in.');
    expect(warnings).toEqual([
      {
        what: `tools/call of "work" failed: ${text}`,
        next: expect.stringContaining('Give createValise a store'),
      },
    ]);
  });

  it('an error that the handler has caught is not reported to the author', async () => {
    const { warnings } = await throwing((valise) => {
      try {
        valise.jar.session.set('n', 1);
      } catch {
        throw new Error('of its own');
      }
    });
    expect(warnings).toEqual([]);
  });

  it('an error that a tool throws tells the model nothing about the options of createValise()', async () => {
    const { text, warnings } = await throwing((valise) => valise.session());
    expect(text).toBe('This server has no data-layer sessions.');
    expect(warnings).toEqual([
      { what: expect.stringContaining(text), next: expect.stringContaining('option sessions') },
    ]);
  });
});

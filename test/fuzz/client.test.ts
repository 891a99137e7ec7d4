import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { CREATED, type HostileAnswer, hostileAnswer, ID, LISTED, OPENED } from './answers.ts';
import type { Json } from './mutate.ts';
import { fuzz } from './run.ts';

const VICTIM = 'https://victim.example.com/mcp';
const EVIL = 'https://evil.example.net/mcp';
const SECRET = 'only for the victim';
const SERVER = 'modelcontextprotocol.io/state/server';

const FORMS = [
  { form: 'v1', Client: ClientV1, Http: HttpV1, era: 'legacy' },
  { form: 'v2', Client: ClientV2, Http: HttpV2, era: 'legacy' },
  { form: 'v2 on 2026-07-28', Client: ClientV2, Http: HttpV2, era: 'modern' },
] as const;
type Form = (typeof FORMS)[number];

/** What a client does in one case. */
const DEEDS = ['call', 'call', 'call', 'call', 'create', 'list', 'open'] as const;
type Deed = (typeof DEEDS)[number];
type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** The server at the other end of a case: it opens as it should, and answers everything else with `answer`. */
function serverOf(era: Form['era'], deed: Deed, answer: HostileAnswer, sent: string[]): Fetch {
  return async (url, init = {}) => {
    if (init.method !== 'POST') return new Response(null, { status: 405 });
    const body = String(init.body);
    const { id, method } = JSON.parse(body) as { id?: Json; method?: string };
    if (!String(url).startsWith(VICTIM))
      sent.push(body + JSON.stringify(Object.fromEntries(new Headers(init.headers))));
    if (id === undefined || method === undefined) return new Response(null, { status: 202 });
    const opening = method === 'initialize' || method === 'server/discover';
    if (!opening || deed === 'open') return written(answer, id);
    if (era === 'legacy' && method !== 'initialize')
      return Response.json({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
    return Response.json({ ...OPENED[era][0], id });
  };
}

function written({ status, type, headers, body }: HostileAnswer, id: Json): Response {
  const isEmpty = status === 204 || status === 202;
  const text = body.replaceAll(ID, JSON.stringify(id));
  const made = new Headers(type ? { 'content-type': type.replace(/[^\x20-\x7e]/g, '') } : {});
  for (const [name, value] of Object.entries(headers)) made.set(name, value.replace(/[^\x20-\x7e]/g, ''));
  return new Response(isEmpty ? null : text, { status, headers: made });
}

function clientOf({ Client, era }: Form): ClientV2 {
  const options = {
    capabilities: { elicitation: {} },
    ...(era === 'modern' && {
      versionNegotiation: { mode: { pin: '2026-07-28' }, probe: { timeoutMs: 300 } },
    }),
  };
  const client = new Client({ name: 'host', version: '1.0.0' }, options as never) as ClientV2;
  const answer = async () => ({ action: 'accept', content: { name: 'me' } }) as never;
  if (Client === ClientV1) (client as unknown as ClientV1).setRequestHandler(ElicitRequestSchema, answer);
  else client.setRequestHandler('elicitation/create', answer);
  client.onerror = () => {};
  return client;
}

function genuineFor(deed: Deed, era: Form['era']) {
  const answers = { call: undefined, create: CREATED, list: LISTED, open: OPENED[era] };
  return answers[deed];
}

/** The majors differ in where the options are. */
async function callTool({ Client }: Form, client: ClientV2, options: object): Promise<void> {
  const call = client.callTool.bind(client) as (...args: unknown[]) => Promise<unknown>;
  await call({ name: 'work', arguments: {} }, ...(Client === ClientV1 ? [undefined, options] : [options]));
}

/** The error of what a client does; undefined if it has a result. */
async function outcome(form: Form, deed: Deed, fetch: Fetch, valise?: ClientValise): Promise<unknown> {
  const client = clientOf(form);
  const options = { timeout: 300, maxTotalTimeout: 1000 };
  const transport = () =>
    new form.Http(new URL(EVIL), { fetch, reconnectionOptions: { maxRetries: 0 } as never });
  // Some answers are to nobody's question; the user gives up on those.
  const patience = setTimeout(() => void client.close(), 600);
  try {
    if (valise) await valise.connect(client, EVIL, { fetch, resume: false });
    else await client.connect(transport() as never, options as never);
    if (deed === 'create' && valise) await valise.sessions(client).create({ label: 'x' });
    else if (deed === 'list') await client.listTools({}, options as never);
    else if (deed !== 'open') await callTool(form, client, options);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    clearTimeout(patience);
    await client.close();
  }
}

/** Errors of the engine: nobody wrote them, so nobody can tell what to do about them. */
const isRaw = (error: unknown) =>
  !(error instanceof Error) ||
  /^(TypeError|RangeError|ReferenceError|SyntaxError)$/.test(error.constructor.name);

describe.each(FORMS)('a $form client that gets hostile answers over HTTP', (form) => {
  it('A client ends each call with a result or a typed error, and reveals no secret', {
    timeout: 1_800_000,
  }, async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    const store = memoryStore();
    const sent: string[] = [];
    const open = async (): Promise<ClientValise> => openValise({ store });
    const honest = await open();
    const friendly: HostileAnswer = {
      status: 200,
      type: 'application/json',
      headers: {},
      body: `{"jsonrpc":"2.0","id":${ID},"result":{"resultType":"complete","content":[],"_meta":{"${SERVER}":{"secret":"${SECRET}"},"dev.valise/state":{"server":{"secret":"${SECRET}"}}}}}`,
    };
    const visit = clientOf(form);
    await honest.connect(
      visit,
      new form.Http(new URL(VICTIM), { fetch: serverOf(form.era, 'call', friendly, []) }) as never,
    );
    await visit.callTool({ name: 'work', arguments: {} });
    await visit.close();
    const plan = {
      name: `client, ${form.form}`,
      short: 400,
      soak: 5500,
      atOnce: 60,
      reach: 1 / 3,
      reaching: 'got a result',
    };
    await fuzz(plan, async ({ random, input, count, reached }) => {
      const deed = random.pick(DEEDS);
      const answer = hostileAnswer(random, genuineFor(deed, form.era));
      input({ form: form.form, deed, answer });
      const error = await outcome(form, deed, serverOf(form.era, deed, answer, sent), honest);
      if (error === undefined) reached();
      if (error !== undefined && isRaw(error) && deed !== 'create') {
        // The SDKs have such errors of their own; ours must not be others.
        const stock = await outcome(form, deed, serverOf(form.era, deed, answer, []));
        if ((stock as Error | undefined)?.constructor?.name !== (error as Error)?.constructor?.name)
          throw error;
      } else if (error !== undefined && isRaw(error)) throw error;
      count(error === undefined ? 'result' : (error as Error).constructor.name);
      const leak = sent.splice(0).find((text) => text.includes(SECRET));
      if (leak !== undefined) throw new Error(`It told the server what another one had set: ${leak}`);
    });
    const theirs = honest.jar.list({ values: true }).filter(({ server }) => server === 'victim.example.com');
    expect(theirs.find(({ key }) => key === 'secret')?.value).toEqual(SECRET);
    await honest.close();
  });
});

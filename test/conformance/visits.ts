import type { Client, OAuthClientProvider } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { clientKits } from './client-kit.ts';
import { PROVIDERS, SignIn } from './sign-in.ts';

/** A client that a suite has started for one scenario. */
export interface Visit {
  readonly scenario: string;
  readonly url: string;
  /** The revision to speak, where the suite says it. */
  readonly version?: string | undefined;
  /** What the scenario gives its client to know, as JSON. */
  readonly context?: string | undefined;
}

/** How the clients of a run are made. */
export interface ClientSetup {
  readonly sdk: 'v1' | 'v2';
  readonly installed: boolean;
}

type Work = (client: Client, context: Readonly<Record<string, unknown>>) => Promise<unknown>;

const listOnly: Work = (client) => client.listTools();

const callFirst =
  (name: string, args: Record<string, unknown> = {}): Work =>
  async (client) => {
    await client.listTools();
    await client.callTool({ name, arguments: args });
  };

/** What the client does in each scenario. */
const WORK: Readonly<Record<string, Work>> = {
  initialize: listOnly,
  'json-schema-ref-no-deref': listOnly,
  'request-metadata': async () => {},
  tools_call: callFirst('add_numbers', { a: 5, b: 3 }),
  'elicitation-sep1034-client-defaults': callFirst('test_client_elicitation_defaults'),
  'sse-retry': callFirst('test_reconnection'),
  async 'json-schema-2020-12-preservation'(client) {
    const { tools } = await client.listTools();
    const schema = tools.find(({ name }) => name === 'json_schema_2020_12_tool')?.inputSchema;
    await client.callTool({ name: 'json_schema_echo', arguments: { schema } });
  },
  async 'sep-2322-client-request-state'(client) {
    for (const tool of ['echo_state', 'no_state', 'unrelated'])
      await client.callTool({ name: `test_mrtr_${tool}`, arguments: {} });
    // It answers without a resultType, which v2 does not take from a server of this revision.
    await client.callTool({ name: 'test_mrtr_no_result_type', arguments: {} }).catch(() => {});
  },
  async 'http-standard-headers'(client) {
    for (const { name } of (await client.listTools()).tools) await client.callTool({ name, arguments: {} });
    for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
    for (const { name } of (await client.listPrompts()).prompts)
      await client.getPrompt({ name, arguments: {} });
  },
  async 'http-custom-headers'(client, { toolCalls }) {
    await client.listTools();
    for (const call of toolCalls as { name: string; arguments: Record<string, unknown> }[])
      await client.callTool(call);
  },
  async 'http-invalid-tool-headers'(client) {
    for (const { name } of (await client.listTools()).tools)
      await client.callTool({ name, arguments: { region: 'us-west1' } });
  },
};

/** Scenarios about signing in. */
const signedIn: Work = callFirst('test-tool');

/** Extensions that neither SDK speaks, or that this client does not. */
const LEFT_OUT = /^(auth\/wif-jwt-bearer|sep-2640-.*)$/;

/** Plays the client of a scenario. */
export async function play(visit: Visit, { sdk, installed }: ClientSetup): Promise<void> {
  const { scenario, url } = visit;
  const context = JSON.parse(visit.context ?? '{}') as Readonly<Record<string, never>>;
  const work = WORK[scenario] ?? (scenario.startsWith('auth/') ? signedIn : undefined);
  if (!work || LEFT_OUT.test(scenario)) throw new Error(`${scenario} is left out`);
  const provider = scenario.startsWith('auth/')
    ? await (PROVIDERS[scenario] ?? (() => new SignIn()))(context)
    : undefined;
  const valise = installed ? await openValise({ store: 'memory:', allowLocal: true }) : undefined;
  const kit = clientKits[sdk];

  /** False where the user has signed in meanwhile, and all is to be done again. */
  const attempt = async (): Promise<boolean> => {
    const client = kit.client(capabilitiesFor(scenario), visit.version === '2026-07-28');
    if ('elicitation' in capabilitiesFor(scenario))
      kit.onElicit(client, {
        action: 'accept',
        content: scenario === 'sep-2322-client-request-state' ? { confirmed: true } : {},
      });
    const transport = kit.transport(new URL(url), provider ? { authProvider: provider } : {});
    try {
      await (valise ? valise.connect(client, transport) : client.connect(transport));
      await work(client, context);
      return true;
    } catch (error) {
      const callback = signInOf(provider)?.takeCallback();
      if (!callback) throw error;
      await kit.finishAuth(transport, callback);
      // Whoever is sent to sign in again may be sent elsewhere.
      signInOf(provider)?.invalidateCredentials('discovery');
      return false;
    } finally {
      await client.close();
    }
  };

  try {
    for (let attempts = 1; !(await attempt()); attempts++)
      if (attempts === 3) throw new Error('signed in in vain');
  } finally {
    await valise?.close();
  }
}

function signInOf(provider: OAuthClientProvider | undefined): SignIn | undefined {
  return provider instanceof SignIn ? provider : undefined;
}

function capabilitiesFor(scenario: string): Record<string, object> {
  switch (scenario) {
    case 'elicitation-sep1034-client-defaults':
      return { elicitation: { form: { applyDefaults: true } } };
    case 'sep-2322-client-request-state':
      return { elicitation: {} };
    case 'request-metadata':
      return { roots: { listChanged: true }, sampling: {}, elicitation: {} };
    default:
      return {};
  }
}

import type { CallToolResult } from '@modelcontextprotocol/client';
import type { Command } from 'commander';
import { type ClientSession, LEFT_OPEN } from '../../client/index.ts';
import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { isAsking, leftBy } from '../ask/handler.ts';
import { type Connected, connectTo } from '../connect.ts';
import { EXIT, type SetExit } from '../exit.ts';
import { answerOption, type ConnectOptions, connectOptions } from '../options.ts';
import { clean, print, printJson } from '../output.ts';
import { whileWaiting } from '../patience.ts';
import { pendingIn, tellPending, tellUnanswered } from '../pending.ts';
import { inCommandWords } from '../session-words.ts';

interface CallOptions extends ConnectOptions {
  readonly session: string;
}

/** `valise call TARGET TOOL [ARGS-JSON]`: a one-shot client with a jar, as curl is with its cookie jar. */
export function callCommand(program: Command, exit: SetExit): void {
  answerOption(
    connectOptions(
      program
        .command('call')
        .description('call a tool once, with the state that is kept for the server')
        .argument('<target>', "a URL, or 'stdio:COMMAND'")
        .argument('<tool>', 'name of the tool')
        .argument('[args-json]', 'arguments of the tool as a JSON object', '{}'),
    ),
  )
    .option(
      '--session <new|NAME|none>',
      'session to call in: a new one that ends with the call, one of this name (made where there is none), or none',
      'none',
    )
    .addHelpText(
      'after',
      `
Examples:
  valise call https://shop.example.com/mcp add_item '{"item":"book","price":12}'
  valise call 'stdio:valise example shop --stdio' view_cart --json
  valise call https://notes.example.com/mcp notebook_append '{"text":"hi"}' --session diary
  valise call https://bugs.example.com/mcp update_work_item '{…}' --answer resolution=Fixed`,
    )
    .action(async (target: string, tool: string, args: string, options: CallOptions) => {
      exit(await call(target, tool, args, options));
    });
}

async function call(target: string, name: string, args: string, options: CallOptions): Promise<number> {
  const input = parseArguments(args);
  checkSession(options.session);
  const connected = await connectTo(target, options);
  let session: ClientSession | undefined;
  try {
    session = await sessionFor(connected, options.session);
    const work = () => callTool(connected.client, options.sdk, { name, arguments: input });
    const result = await whileWaiting(
      () => (isAsking(connected.client) ? undefined : `${clean(name)} to answer`),
      () => (session ? session.run(work) : work()),
    );
    const left = result.isError ? leftBy(connected.client) : undefined;
    if (options.json) printJson(result);
    // What the server makes of an error that we sent it is said below, in plain words.
    else if (!left || !JSON.stringify(result.content).includes(String(LEFT_OPEN))) printResult(result);
    await endIfNew(session);
    if (!result.isError) return EXIT.ok;
    tellUnanswered(left);
    if (!left) connected.tellUnkept();
    return EXIT.failed;
  } catch (error) {
    const round = await pendingIn(error, connected.valise.pending);
    // The call goes on in its session later.
    if (round) return tellPending(round, options, { why: error });
    await endIfNew(session);
    throw options.json ? error : inCommandWords(error, target);
  } finally {
    await connected.close();
  }
}

/** Nobody can call in a session again that has no name; the server need not hold it any longer. */
async function endIfNew(session: ClientSession | undefined): Promise<void> {
  if (session && session.label === undefined && !session.isGone)
    await session.delete().catch(() => undefined);
}

/** People may take their time over a question. */
const TIMEOUT = 24 * 3600 * 1000;

type ToolCall = { readonly name: string; readonly arguments: Record<string, unknown> };

/** v1 takes a schema of the result before the options. */
function callTool(
  client: Connected['client'],
  sdk: ConnectOptions['sdk'],
  call: ToolCall,
): Promise<CallToolResult> {
  const settings = { timeout: TIMEOUT };
  if (sdk === 'v2') return client.callTool(call, settings);
  const v1 = client as unknown as {
    callTool(call: ToolCall, schema: undefined, settings: object): Promise<CallToolResult>;
  };
  return v1.callTool(call, undefined, settings);
}

function checkSession(name: string): void {
  if (name.trim() !== '') return;
  throw new ValiseError('bad-option', '--session has an empty name.', {
    next: 'Give it a name, or write new or none.',
  });
}

async function sessionFor({ valise, client }: Connected, name: string): Promise<ClientSession | undefined> {
  if (name === 'none') return undefined;
  return name === 'new' ? valise.sessions(client).create() : valise.sessions(client).named(name);
}

function parseArguments(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ValiseError('bad-arguments', `The arguments are not JSON: ${text}.`, {
      next: `Write an object, e.g. '{"item":"book"}'.`,
      cause,
    });
  }
  if (isObject(value)) return value;
  throw new ValiseError('bad-arguments', 'The arguments are not a JSON object.', {
    next: `Write an object, e.g. '{"item":"book"}'.`,
  });
}

/** Texts as they are, except for control characters; anything else as JSON. */
export function printResult(result: {
  readonly [key: string]: unknown;
  readonly content?: unknown;
  readonly structuredContent?: unknown;
}): void {
  const content = Array.isArray(result.content) ? result.content : [];
  for (const part of content)
    if (isObject(part) && part['type'] === 'text') print(clean(String(part['text']), 'lines'));
    else printJson(part);
  if (content.length === 0) printJson(result.structuredContent ?? result);
}

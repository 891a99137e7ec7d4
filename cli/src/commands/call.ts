import type { CallToolResult, Progress } from '@modelcontextprotocol/client';
import type { Command } from 'commander';
import { type ClientSession, LEFT_OPEN } from 'mcp-valise/client';
import { isObject } from 'mcp-valise/internal';
import { leftBy } from '../ask/handler.ts';
import type { Connected } from '../connection/connect.ts';
import { perform, TIMEOUT } from '../connection/perform.ts';
import { UsageError } from '../errors.ts';
import { answerOption, type ConnectOptions, connectOptions, traceOption } from '../options/options.ts';
import { printResult, saveParts } from '../output/content.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { clean, printJson, remark } from '../output/output.ts';
import { tellUnanswered } from '../output/pending.ts';

interface CallOptions extends ConnectOptions {
  readonly session: string;
  readonly out?: string;
}

/** `valise call TARGET TOOL [ARGS-JSON]`: a one-shot client with a jar, like curl with its cookie jar. */
export function callCommand(program: Command, exit: SetExit): void {
  traceOption(
    answerOption(
      connectOptions(
        program
          .command('call')
          .description('call a tool once, with the state that is kept for the server')
          .argument('<target>', "a URL, or 'stdio:COMMAND'")
          .argument('<tool>', 'name of the tool')
          .argument('[args-json]', 'arguments of the tool as a JSON object', '{}'),
      ),
    ),
  )
    .option(
      '--session <new|NAME|none>',
      'session to call in: a new one that ends with the call, one of this name (created if there is none), or none',
      'none',
    )
    .option(
      '--out <path>',
      'save images, audio and other files of the result to this file, or into this folder',
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
  let session: ClientSession | undefined;
  return perform(target, options, name, {
    async work(connected) {
      session = await sessionFor(connected, options.session);
      const work = () => callTool(connected.client, options.sdk, { name, arguments: input });
      return session ? session.run(work) : work();
    },
    async show(result, connected) {
      const left = result.isError ? leftBy(connected.client) : undefined;
      await showResult(result, options, left !== undefined);
      await endIfNew(session);
      if (!result.isError) return EXIT.ok;
      tellUnanswered(left);
      if (!left) connected.warnIfUnkept();
      return EXIT.failed;
    },
    failed: () => endIfNew(session),
  });
}

async function showResult(
  result: CallToolResult,
  { json, out }: CallOptions,
  isLeft: boolean,
): Promise<void> {
  if (json) printJson(result);
  if (out !== undefined && !result.isError) await saveParts(result.content, out, { show: !json });
  // Does not print the server's wording of an error that this client sent it; the message for the user says it in plain
  // words.
  else if (!json && !(isLeft && JSON.stringify(result.content).includes(String(LEFT_OPEN))))
    printResult(result);
}

/** Deletes a session without a name: nobody can use it again, so the server need not keep it. */
async function endIfNew(session: ClientSession | undefined): Promise<void> {
  if (session && session.label === undefined && !session.isGone)
    await session.delete().catch(() => undefined);
}

type ToolCall = { readonly name: string; readonly arguments: Record<string, unknown> };

/** Maximum number of progress lines that one call may print. */
const MOST_PROGRESS = 1000;

/** Prints the progress that the server reports to stderr. */
function progressTeller(): (progress: Progress) => void {
  let told = 0;
  return ({ progress, total, message }) => {
    told += 1;
    if (told > MOST_PROGRESS) return;
    const far = total === undefined ? `${progress}` : `${progress}/${total}`;
    remark(`valise: ${far}${message === undefined ? '' : ` ${clean(message)}`}`);
  };
}

/** Calls a tool; v1 takes a result schema before the options. */
function callTool(
  client: Connected['client'],
  sdk: ConnectOptions['sdk'],
  call: ToolCall,
): Promise<CallToolResult> {
  const settings = { timeout: TIMEOUT, onprogress: progressTeller() };
  if (sdk === 'v2') return client.callTool(call, settings);
  const v1 = client as unknown as {
    callTool(call: ToolCall, schema: undefined, settings: object): Promise<CallToolResult>;
  };
  return v1.callTool(call, undefined, settings);
}

function checkSession(name: string): void {
  if (name.trim() !== '') return;
  throw new UsageError('invalid-argument', '--session has an empty name.', {
    next: 'Give it a name, or write new or none.',
  });
}

async function sessionFor({ valise, client }: Connected, name: string): Promise<ClientSession | undefined> {
  if (name === 'none') return undefined;
  return name === 'new' ? valise.sessions(client).create() : valise.sessions(client).named(name);
}

/** Parses arguments written as a JSON object. */
export function parseArguments(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new UsageError('bad-arguments', `The arguments are not JSON: ${text}.`, {
      next: `Write an object, e.g. '{"item":"book"}'.`,
      cause,
    });
  }
  if (isObject(value)) return value;
  throw new UsageError('bad-arguments', 'The arguments are not a JSON object.', {
    next: `Write an object, e.g. '{"item":"book"}'.`,
  });
}

import type { Command } from 'commander';
import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { connectTo } from '../connect.ts';
import { EXIT, explain, type SetExit } from '../exit.ts';
import { type ConnectOptions, connectOptions } from '../options.ts';
import { print, printJson } from '../output.ts';

/** `valise call TARGET TOOL [ARGS-JSON]`: a one-shot client with a jar, as curl is with its cookie jar. */
export function callCommand(program: Command, exit: SetExit): void {
  connectOptions(
    program
      .command('call')
      .description('call a tool once, with the state that is kept for the server')
      .argument('<target>', "a URL, or 'stdio:COMMAND'")
      .argument('<tool>', 'name of the tool')
      .argument('[args-json]', 'arguments of the tool as a JSON object', '{}'),
  )
    .addHelpText(
      'after',
      `
Examples:
  valise call https://shop.example.com/mcp add_item '{"item":"book","price":12}'
  valise call 'stdio:valise example shop --stdio' view_cart --json`,
    )
    .action(async (target: string, tool: string, args: string, options: ConnectOptions) => {
      exit(await call(target, tool, args, options));
    });
}

async function call(target: string, name: string, args: string, options: ConnectOptions): Promise<number> {
  try {
    const connected = await connectTo(target, options);
    try {
      const result = await connected.client.callTool({ name, arguments: parseArguments(args) });
      if (options.json) printJson(result);
      else printResult(result);
      return result.isError ? EXIT.failed : EXIT.ok;
    } finally {
      await connected.close();
    }
  } catch (error) {
    if (!options.json) throw error;
    printJson({ error: errorBody(error) });
    return EXIT.failed;
  }
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

/** The error as a program reads it: JSON-RPC's code and data where the server sent them. */
export function errorBody(error: unknown): Record<string, unknown> {
  const { code, data } = (error ?? {}) as { code?: unknown; data?: unknown };
  return {
    ...(code !== undefined && { code }),
    message: explain(error),
    ...(data !== undefined && { data }),
  };
}

/** Texts as they are, anything else as JSON. */
export function printResult(result: {
  readonly content?: unknown;
  readonly structuredContent?: unknown;
}): void {
  const content = Array.isArray(result.content) ? result.content : [];
  for (const part of content)
    print(isObject(part) && part['type'] === 'text' ? String(part['text']) : JSON.stringify(part));
  if (content.length === 0) print(JSON.stringify(result.structuredContent ?? result));
}

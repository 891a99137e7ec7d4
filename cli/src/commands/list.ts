import type { Prompt, Resource, ResourceTemplateType, Tool } from '@modelcontextprotocol/client';
import type { Command } from 'commander';
import { isObject, METHOD_NOT_FOUND } from 'mcp-valise/internal';
import { keepOffered } from '../completion/offered.ts';
import { type Connected, connectTo } from '../connection/connect.ts';
import { type ConnectOptions, connectOptions } from '../options/options.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { print, printJson, printTable } from '../output/output.ts';

/** `valise list TARGET`: lists what a server offers. */
export function listCommand(program: Command, exit: SetExit): void {
  connectOptions(
    program
      .command('list')
      .description('list the tools, resources and prompts of a server')
      .argument('<target>', "a URL, or 'stdio:COMMAND'"),
  )
    .addHelpText('after', "\nExample:\n  valise list 'stdio:npx -y @modelcontextprotocol/server-everything'")
    .action(async (target: string, options: ConnectOptions) => {
      const connected = await connectTo(target, options);
      try {
        const offered = await everything(connected.client);
        await keepOffered(target, namesIn(offered), options);
        if (options.json) printJson(offered);
        else printOffered(offered);
        exit(EXIT.ok);
      } finally {
        await connected.close();
      }
    });
}

type Client = Connected['client'];

interface Offered {
  readonly tools: readonly Tool[];
  readonly resources?: readonly Resource[];
  readonly resourceTemplates?: readonly ResourceTemplateType[];
  readonly prompts?: readonly Prompt[];
}

function namesIn({ tools, prompts = [], resources = [] }: Offered): Parameters<typeof keepOffered>[1] {
  return {
    tools: tools.map(({ name }) => name),
    prompts: prompts.map(({ name }) => name),
    uris: resources.map(({ uri }) => uri),
  };
}

/** Lists what a server offers, without requesting anything that it does not announce. */
async function everything(client: Client): Promise<Offered> {
  const { resources, prompts } = client.getServerCapabilities() ?? {};
  const tools = await allPages(
    (cursor) => client.listTools(cursor),
    ({ tools }) => tools,
  );
  return {
    tools,
    ...(resources && {
      resources: await allPages(
        (cursor) => client.listResources(cursor),
        ({ resources }) => resources,
      ),
      resourceTemplates: await allPages(
        (cursor) => client.listResourceTemplates(cursor).catch(noneIfUnknown),
        ({ resourceTemplates }) => resourceTemplates,
      ),
    }),
    ...(prompts && {
      prompts: await allPages(
        (cursor) => client.listPrompts(cursor),
        ({ prompts }) => prompts,
      ),
    }),
  };
}

/** Returns an empty page if the server has resources but does not support templates. */
function noneIfUnknown(error: unknown): {
  readonly resourceTemplates: ResourceTemplateType[];
  readonly nextCursor?: string;
} {
  if ((error as { readonly code?: unknown } | undefined)?.code !== METHOD_NOT_FOUND) throw error;
  return { resourceTemplates: [] };
}

/** Collects all pages of a list. Stops at some point if the server never ends it. */
async function allPages<Page extends { readonly nextCursor?: string | undefined }, Item>(
  list: (params: { readonly cursor: string } | undefined) => Promise<Page>,
  itemsOf: (page: Page) => readonly Item[],
): Promise<Item[]> {
  const items: Item[] = [];
  const seen = new Set<string>();
  for (let cursor: string | undefined; ; ) {
    const page = await list(cursor === undefined ? undefined : { cursor });
    items.push(...itemsOf(page));
    cursor = page.nextCursor;
    if (cursor === undefined || seen.has(cursor) || seen.size >= MAX_PAGES) return items;
    seen.add(cursor);
  }
}

const MAX_PAGES = 1000;

function printOffered({ tools, resources = [], resourceTemplates = [], prompts = [] }: Offered): void {
  const table = (headings: readonly string[], rows: readonly (readonly string[])[]): void => {
    if (rows.length === 0) return;
    print();
    printTable(headings, rows, '');
  };
  printTable(
    ['TOOL', 'ARGUMENTS', 'DESCRIPTION'],
    tools.map(({ name, inputSchema, description = '' }) => [
      name,
      argumentsOf(inputSchema),
      firstLine(description),
    ]),
    'This server has no tools.',
  );
  table(
    ['RESOURCE', 'TYPE', 'NAME'],
    resources.map(({ uri, mimeType = '-', name }) => [uri, mimeType, name]),
  );
  table(
    ['TEMPLATE', 'TYPE', 'NAME'],
    resourceTemplates.map(({ uriTemplate, mimeType = '-', name }) => [uriTemplate, mimeType, name]),
  );
  table(
    ['PROMPT', 'ARGUMENTS', 'DESCRIPTION'],
    prompts.map(({ name, arguments: given = [], description = '' }) => [
      name,
      given.map((each) => `${each.name}${each.required ? '' : '?'}`).join(', ') || '-',
      firstLine(description),
    ]),
  );
}

/** Formats the arguments of a tool in TypeScript notation: `item: string, price?: number`. */
function argumentsOf({ properties = {}, required = [] }: Tool['inputSchema']): string {
  const isRequired = (name: string): boolean => Array.isArray(required) && required.includes(name);
  const names = Object.keys(properties).sort(
    (one, other) => Number(isRequired(other)) - Number(isRequired(one)),
  );
  return (
    names.map((name) => `${name}${isRequired(name) ? '' : '?'}: ${typeOf(properties[name])}`).join(', ') ||
    '-'
  );
}

function typeOf(schema: unknown): string {
  if (!isObject(schema)) return 'any';
  const { type, enum: choices, items } = schema;
  if (Array.isArray(choices))
    return choices
      .slice(0, 10)
      .map((each) => JSON.stringify(each))
      .join('|');
  if (type === 'array') return `${typeOf(items)}[]`;
  return typeof type === 'string' ? type : Array.isArray(type) ? type.join('|') : 'any';
}

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
}

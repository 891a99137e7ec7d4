import { isObject } from '../json.ts';
import type { Meta, Request } from '../wire/index.ts';
import type { ServerLike } from './server-like.ts';

/** The registrations inside both SDK majors' `McpServer`. None of them is public, so every access is checked. */
interface Registered {
  readonly _registeredTools?: unknown;
  readonly _registeredPrompts?: unknown;
  readonly _registeredResources?: unknown;
  readonly _registeredResourceTemplates?: unknown;
}

/** Returns the `_meta` in the config of the tool, prompt or resource that a request is about, or undefined if there is none. */
export function configOf(server: ServerLike, { method, params }: Request): Meta | undefined {
  const registered = server as Registered;
  switch (method) {
    case 'tools/call':
      return metaOf(own(registered._registeredTools, params?.['name']));
    case 'prompts/get':
      return metaOf(own(registered._registeredPrompts, params?.['name']));
    case 'resources/read':
    case 'resources/subscribe': {
      const uri = params?.['uri'];
      const resource =
        own(registered._registeredResources, uri) ??
        templateFor(registered._registeredResourceTemplates, uri);
      return metaOf(isObject(resource) ? resource['metadata'] : undefined);
    }
    default:
      return undefined;
  }
}

/** Whether the config of any tool of the server has a key in its `_meta`. */
export function hasToolWith(server: ServerLike, key: string): boolean {
  const tools = (server as Registered)._registeredTools;
  return isObject(tools) && Object.values(tools).some((tool) => metaOf(tool)?.[key] !== undefined);
}

/** The facts about a tool that an `McpServer` has registered. */
export interface ToolFacts {
  readonly meta: Meta | undefined;
  /** The function that the author gave. */
  readonly handler: unknown;
  /** Whether clients expect structured content in its results. */
  readonly hasOutput: boolean;
  /** Whether the author's own schema has a parameter of this name. */
  takes(parameter: string): boolean;
}

/** Returns the names of the tools that a server has registered so far. */
export function toolNames(server: ServerLike): readonly string[] {
  const tools = (server as Registered)._registeredTools;
  return isObject(tools) ? Object.keys(tools) : [];
}

/** Returns the facts about a tool, or undefined if the server has not registered it. */
export function toolOf(server: ServerLike, name: string): ToolFacts | undefined {
  const tool = own((server as Registered)._registeredTools, name);
  if (!isObject(tool)) return undefined;
  const { handler, inputSchema, outputSchema } = tool;
  return {
    meta: metaOf(tool),
    handler,
    hasOutput: outputSchema !== undefined,
    takes: (parameter) => {
      const shape = isObject(inputSchema) ? (inputSchema['shape'] ?? inputSchema['properties']) : undefined;
      return isObject(shape) && Object.hasOwn(shape, parameter);
    },
  };
}

function own(registry: unknown, name: unknown): unknown {
  return isObject(registry) && typeof name === 'string' && Object.hasOwn(registry, name)
    ? registry[name]
    : undefined;
}

function metaOf(registered: unknown): Meta | undefined {
  const meta = isObject(registered) ? registered['_meta'] : undefined;
  return isObject(meta) ? meta : undefined;
}

function templateFor(templates: unknown, uri: unknown): unknown {
  if (!isObject(templates) || typeof uri !== 'string') return undefined;
  return Object.values(templates).find((each) => {
    const { resourceTemplate } = each as {
      readonly resourceTemplate?: { readonly uriTemplate?: { match?(uri: string): unknown } };
    };
    return Boolean(resourceTemplate?.uriTemplate?.match?.(uri));
  });
}

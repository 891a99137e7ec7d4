import { ValiseError } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import type { Meta, Request } from '../wire/index.ts';

/** A server of either SDK major: `McpServer` or `Server`. */
export interface ServerLike {
  connect(transport: unknown): Promise<void>;
}

/** Returns the SDK's own `Server`, which an `McpServer` wraps. */
export function protocolOf(server: ServerLike): object {
  return (server as { readonly server?: object }).server ?? server;
}

/** A mark on the server itself, because weak sets of short-lived objects burden the garbage collector. */
const INSTALLED = Symbol('mcp-valise');

/** Whether it is an `McpServer` or a `Server` of either major. Other objects with a `connect` would never call ours. */
function isSdkServer(server: ServerLike | undefined): boolean {
  if (typeof server?.connect !== 'function') return false;
  const { connect, setRequestHandler } = protocolOf(server) as Readonly<Record<string, unknown>>;
  return typeof connect === 'function' && typeof setRequestHandler === 'function';
}

/** Claims a server for one Valise. Throws if it is not a server, is already connected, or already has a Valise. */
export function claimServer(server: ServerLike): void {
  if (!isSdkServer(server)) {
    const kind = (server as object | undefined)?.constructor?.name ?? typeof server;
    throw new ValiseError(
      'invalid-argument',
      `Valise cannot be installed on ${kind}: it is no server of an MCP SDK.`,
      {
        next: 'Call valise.install() with an McpServer or a Server of @modelcontextprotocol/server or @modelcontextprotocol/sdk. If a framework makes it for you, ask the framework for it before it connects: docs/frameworks.md says how for some.',
      },
    );
  }
  const protocol = protocolOf(server) as { readonly transport?: unknown; [INSTALLED]?: true };
  if (protocol.transport !== undefined) {
    throw new ValiseError(
      'already-connected',
      'Valise was to be installed on a server that is connected already.',
      { next: 'Call valise.install(server) before server.connect(transport).' },
    );
  }
  // Two Valises would both answer for the same capabilities, and give the client conflicting information.
  if (protocol[INSTALLED]) {
    throw new ValiseError('already-connected', 'A Valise is installed on this server already.', {
      next: 'Install one Valise on each server, once. valise.factory(build) installs it, so build must not.',
    });
  }
  protocol[INSTALLED] = true;
}

/** The part of both SDK majors' `Server` that tells about its handlers. */
interface ProtocolLike {
  assertCanSetRequestHandler?(method: string): void;
  readonly fallbackRequestHandler?: unknown;
  /** Not public, so it is only a shortcut for what the assertion reports with an exception. */
  readonly _requestHandlers?: unknown;
}

/** Whether a server has a handler for a method. Returns true if the server cannot tell. */
export function handles(server: ServerLike, method: string): boolean {
  const protocol: ProtocolLike = protocolOf(server);
  if (!protocol.assertCanSetRequestHandler || protocol.fallbackRequestHandler) return true;
  const { _requestHandlers: handlers } = protocol;
  if (handlers instanceof Map && handlers.has(method)) return true;
  try {
    protocol.assertCanSetRequestHandler(method);
    return false;
  } catch {
    return true;
  }
}

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

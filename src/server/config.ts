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

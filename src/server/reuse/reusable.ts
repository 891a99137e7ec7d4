import { isObject } from '../../json.ts';
import { protocolOf, type ServerLike } from '../server-like.ts';

/** An SDK handler of requests. */
export type Handle = (request: unknown, context: unknown) => unknown;

/** What both majors' `Server` has. Names with an underscore are not public. */
export interface Protocol {
  readonly transport?: unknown;
  readonly _requestHandlers: Map<string, Handle>;
}

/** What both majors' `McpServer` has. */
export interface McpServerLike extends ServerLike {
  readonly server: Protocol;
  close(): Promise<void>;
}

/** The registries of an `McpServer`. Each maps names to records with a method `update`. */
export const REGISTRIES = [
  '_registeredTools',
  '_registeredPrompts',
  '_registeredResources',
  '_registeredResourceTemplates',
] as const;

/** What a `Server` keeps about one connection. Without one of them something of it could be in a place that is not looked at. */
const CONNECTION_MAPS = [
  '_requestHandlers',
  '_notificationHandlers',
  '_requestHandlerAbortControllers',
  '_responseHandlers',
  '_progressHandlers',
  '_timeoutInfo',
  '_loggingLevels',
];

/**
 * Whether everything of a server can be seen that one request could leave behind for the next. A `Server` without an
 * `McpServer` around it is cheap to build, and its author may do anything with it.
 */
export function isReusable(server: ServerLike): server is McpServerLike {
  const protocol = protocolOf(server) as Readonly<Record<string, unknown>>;
  const own = server as unknown as Readonly<Record<string, unknown>>;
  return (
    protocol !== own &&
    typeof own['close'] === 'function' &&
    REGISTRIES.every((name) => isObject(own[name])) &&
    CONNECTION_MAPS.every((name) => protocol[name] instanceof Map) &&
    typeof protocol['_requestMessageId'] === 'number' &&
    typeof protocol['getClientVersion'] === 'function' &&
    typeof protocol['getClientCapabilities'] === 'function' &&
    protocol['fallbackRequestHandler'] === undefined &&
    // SDK v1 only: tasks go on after the call that began them.
    protocol['_taskStore'] === undefined
  );
}

import { isObject } from '../../core/json.ts';
import { protocolOf, type ServerLike } from '../sdk-server.ts';

/** A request handler of the SDK. */
export type Handle = (request: unknown, context: unknown) => unknown;

/** The part of both majors' `Server` that is used here. Names with an underscore are not public. */
export interface Protocol {
  readonly transport?: unknown;
  readonly _requestHandlers: Map<string, Handle>;
}

/** The part of both majors' `McpServer` that is used here. */
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

/**
 * What a `Server` stores about one connection. If one of them is missing, such data could be in a place that is not checked.
 */
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
 * Whether everything that one request could leave behind for the next is visible on a server.
 *
 * A `Server` without an `McpServer` around it is cheap to build, and its author may do anything with it, so it is not reused.
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
    // SDK v1 only: tasks continue after the call that began them.
    protocol['_taskStore'] === undefined
  );
}

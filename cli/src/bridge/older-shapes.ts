import { isObject } from 'mcp-valise/internal';
import { CORE, type Notification, type Params, type Result } from 'mcp-valise/wire';
import { SUBSCRIPTION_ID } from './newer-shapes.ts';

/** Converts a `server/discover` result to an `initialize` result. */
export function introduced(discovered: Result, { protocolVersion }: Params): Result {
  const { capabilities, instructions, _meta } = discovered;
  return {
    protocolVersion,
    capabilities: isObject(capabilities) ? capabilities : {},
    serverInfo: _meta?.[CORE.serverInfo] ?? { name: 'server', version: '0' },
    ...(instructions !== undefined && { instructions }),
    ...(_meta && { _meta }),
  };
}

/** Converts a result to the older era. */
export function olderResult({ resultType: _, ...result }: Result): Result {
  return result;
}

/** Converts a notification to the older era, in which it names no listener. */
export function olderNotification(message: Notification): Notification {
  if (!message.params?._meta) return message;
  const { _meta, ...params } = message.params;
  const { [SUBSCRIPTION_ID]: _, ...meta } = _meta;
  return { ...message, params: Object.keys(meta).length > 0 ? { ...params, _meta: meta } : params };
}

/**
 * Returns the notifications to subscribe to: those that the older era sends without a subscription, and updates of the given
 * resources.
 */
export function wantedOf(
  capabilities: Readonly<Record<string, unknown>>,
  subscribed: ReadonlySet<string>,
): Params {
  const changes = (kind: string): boolean => {
    const capability = capabilities[kind];
    return isObject(capability) && capability['listChanged'] === true;
  };
  return {
    ...(changes('tools') && { toolsListChanged: true }),
    ...(changes('prompts') && { promptsListChanged: true }),
    ...(changes('resources') && { resourcesListChanged: true }),
    ...(subscribed.size > 0 && { resourceSubscriptions: [...subscribed] }),
  };
}

import { isObject } from 'mcp-valise/internal';
import { CORE, type Notification, type Params, type Result } from 'mcp-valise/wire';
import { SUBSCRIPTION_ID } from './newer-shapes.ts';

/** What a server of the newer era says of itself, as the answer to `initialize`. */
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

/** A result as the older era has it. */
export function olderResult({ resultType: _, ...result }: Result): Result {
  return result;
}

/** A notification as the older era has it: it names no listener. */
export function olderNotification(message: Notification): Notification {
  if (!message.params?._meta) return message;
  const { _meta, ...params } = message.params;
  const { [SUBSCRIPTION_ID]: _, ...meta } = _meta;
  return { ...message, params: Object.keys(meta).length > 0 ? { ...params, _meta: meta } : params };
}

/** What a listener of the newer era is to hear, where the older one tells it without being asked, and of these resources. */
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

import { CORE, FIRST_MODERN_VERSION, type Message, type Params, type Result } from 'mcp-valise/wire';
import type { Answered, ServerRequests } from './server-requests.ts';

/** Asks a server whether it speaks the newer era. */
export function discover(own: ServerRequests): Promise<Answered> {
  const _meta = { [CORE.protocolVersion]: FIRST_MODERN_VERSION, [CORE.clientCapabilities]: {} };
  return own.send('server/discover', { _meta });
}

/** Initializes an older server on behalf of the host. */
export async function begin(
  own: ServerRequests,
  toServer: (message: Message) => Promise<void>,
  params: Params,
): Promise<Result | undefined> {
  const { response } = await own.send('initialize', params);
  if (!('result' in response)) return undefined;
  await toServer({ jsonrpc: '2.0', method: 'notifications/initialized' });
  return response.result;
}

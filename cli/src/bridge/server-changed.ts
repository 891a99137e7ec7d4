import { INTERNAL_ERROR, type RpcError } from 'mcp-valise/wire';

/** The host's error for a call in which the server asked something before it was replaced. */
export const SERVER_CHANGED: RpcError = {
  code: INTERNAL_ERROR,
  message:
    'valise connect: The server was replaced while this call waited for an answer of the host, and the new one does not know of it. It may have been carried out in part: look before calling again.',
};

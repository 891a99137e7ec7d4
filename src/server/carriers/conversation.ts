import type { Taken } from '../../options.ts';
import { sha256 } from '../../sha256.ts';
import type { Meta } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';
import type { Exchange } from '../exchange.ts';

/**
 * How a request names its conversation.
 *
 * `true` reads the keys that hosts are known to send in `_meta`. A function returns the key, or undefined if there is none; its
 * second argument is what the transport passes along with the message.
 */
export type Conversation = boolean | ((meta: Meta, extra: unknown) => string | undefined);

/** The values that the option accepts. */
export const CONVERSATION: Taken = [
  'true, or a function that returns the key of a conversation',
  (value) => typeof value === 'boolean' || typeof value === 'function',
];

/** The `_meta` keys in which hosts name the conversation. */
const PUBLISHED = [
  'openai/session', // ChatGPT
  'vscode.conversationId', // Visual Studio Code
  'threadId', // Codex
  'ai.opencode/sessionID', // OpenCode
  'antigravity.google/conversation_id', // Antigravity
] as const;

/** The longest key that is accepted. */
const MAX_KEY = 1024;

/** Creates the function that reads the conversation of a request. It returns a digest, since the key may be a secret. */
export function conversationReader(
  conversation: Conversation,
  events: ServerEventSource,
): (exchange: Exchange) => string | undefined {
  const keyOf = typeof conversation === 'function' ? conversation : published;
  return ({ request, extra }) => {
    const meta = request.params?._meta;
    const key: unknown = keyOf(meta ?? {}, extra);
    if (key === undefined || key === null || key === '') return undefined;
    if (typeof key === 'string' && key.length <= MAX_KEY) return `conversation:${sha256(key)}`;
    const reason = typeof key === 'string' ? `it is longer than ${MAX_KEY} characters` : 'it is not text';
    events.emit('rejected', { family: 'state', what: 'the key of a conversation', reason });
    return undefined;
  };
}

function published(meta: Meta): string | undefined {
  return PUBLISHED.map((name) => meta[name]).find((key) => typeof key === 'string') as string | undefined;
}

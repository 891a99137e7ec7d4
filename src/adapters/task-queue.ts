import { type Duration, seconds } from '../duration.ts';
import { ValiseError } from '../errors.ts';
import { ANYTHING, BYTES, checkOptions } from '../options.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart } from './limits.ts';

/** Limits on the number of queued messages and how long they are stored. */
export interface TaskMessageQueueOptions {
  /**
   * How long the messages of a task stay queued after the last one was added.
   *
   * @defaultValue '24h'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of messages per task, unless the SDK requests fewer. Further messages are rejected
   * (`limit-reached`).
   *
   * @defaultValue 100
   */
  readonly maxMessages?: number | undefined;
  /**
   * The maximum size of the messages of one task, in bytes of JSON. Further messages are rejected
   * (`limit-reached`).
   *
   * @defaultValue 1048576
   */
  readonly maxBytes?: number | undefined;
}

/** `TaskMessageQueue` of the MCP SDK, version 1. */
export interface TaskMessageQueue<Message> {
  enqueue(taskId: string, message: Message, sessionId?: string, maxSize?: number): Promise<void>;
  dequeue(taskId: string, sessionId?: string): Promise<Message | undefined>;
  dequeueAll(taskId: string, sessionId?: string): Promise<Message[]>;
}

interface Queue {
  readonly messages: readonly string[];
}

const SCHEMA: Schema<Queue> = {
  kind: 'queue of a task',
  version: 1,
  read: ({ messages }) =>
    Array.isArray(messages) && messages.every((text) => typeof text === 'string') ? { messages } : undefined,
};

/**
 * Queues the messages that servers on SDK version 1 send within a task, for all instances that share the store. Each
 * message is taken by exactly one instance. Different sessions have separate queues, even for the same task id.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const server = new McpServer(info, { taskStore: taskStore(store), taskMessageQueue: taskMessageQueue(store) });
 * ```
 */
export function taskMessageQueue<Message>(
  store: Store,
  options: TaskMessageQueueOptions = {},
): TaskMessageQueue<Message> {
  checkOptions('taskMessageQueue', options, { ttl: ANYTHING, maxMessages: COUNT, maxBytes: BYTES });
  const { maxMessages = 100, maxBytes = 1_048_576 } = options;
  const ttl = seconds(options.ttl ?? '24h');
  const queues = collection(store, 'adapters/task-messages/', SCHEMA, { unlisted: true });

  /** Takes the first messages and leaves the others. */
  const take = async (id: string, count: number): Promise<readonly string[]> => {
    let taken: readonly string[] = [];
    await queues.update(
      id,
      (found) => {
        const messages = found?.value?.messages ?? [];
        taken = messages.slice(0, count);
        if (taken.length === 0) return undefined;
        return messages.length > count ? { messages: messages.slice(count) } : null;
      },
      { ttl },
    );
    return taken;
  };

  return {
    async enqueue(taskId, message, session, maxSize = maxMessages) {
      const text = JSON.stringify(message);
      const most = Math.min(maxSize, maxMessages);
      const add = (messages: readonly string[] = []): Queue => {
        const bytes = [...messages, text].reduce((sum, one) => sum + Buffer.byteLength(one), 0);
        if (messages.length >= most || bytes > maxBytes) throw full(taskId);
        return { messages: [...messages, text] };
      };
      await queues.update(idOf(taskId, session), (found) => add(found?.value?.messages), { ttl });
    },
    async dequeue(taskId, session) {
      const [text] = await take(idOf(taskId, session), 1);
      return text === undefined ? undefined : (JSON.parse(text) as Message);
    },
    async dequeueAll(taskId, session) {
      const texts = await take(idOf(taskId, session), Number.POSITIVE_INFINITY);
      return texts.map((text) => JSON.parse(text) as Message);
    },
  };
}

function idOf(taskId: string, session: string | undefined): string {
  return keyPart(JSON.stringify([taskId, session ?? null]));
}

function full(taskId: string): ValiseError {
  return new ValiseError('limit-reached', `Too many messages wait for the task ${taskId}.`, {
    next: 'Wait until the client has fetched them with tasks/result.',
    outcome: 'not-done',
  });
}

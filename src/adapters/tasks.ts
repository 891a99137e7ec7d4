import { randomBytes } from 'node:crypto';
import { type Duration, seconds } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import { isObject, type JsonObject } from '../core/json.ts';
import { ANYTHING, BYTES, checkOptions } from '../core/options.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Found, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart, recordIndex } from './records.ts';

/** Limits on the number of tasks and how long they are stored. */
export interface TaskStoreOptions {
  /**
   * The maximum lifetime of a task, both from its creation to its end and after its end. It also applies to tasks that
   * request no lifetime or an unlimited one.
   *
   * @defaultValue '24h'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of tasks per session, and of all requests without a session. Further tasks are rejected
   * (`limit-reached`).
   *
   * @defaultValue 100
   */
  readonly maxTasks?: number | undefined;
  /**
   * The maximum size of one result, in bytes of JSON. Larger results are rejected
   * (`too-large`).
   *
   * @defaultValue 1048576
   */
  readonly maxBytes?: number | undefined;
}

/** The status of a task, as the protocol names it. */
export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

/** `Task` of the MCP SDK, version 1. */
export interface Task {
  taskId: string;
  status: TaskStatus;
  /** The lifetime in milliseconds. */
  ttl: number;
  createdAt: string;
  lastUpdatedAt: string;
  pollInterval: number;
  statusMessage?: string;
}

/** `TaskStore` of the MCP SDK, version 1. */
export interface TaskStore {
  createTask(
    params: { readonly ttl?: number | null; readonly pollInterval?: number },
    requestId: string | number,
    request: object,
    sessionId?: string,
  ): Promise<Task>;
  getTask(taskId: string, sessionId?: string): Promise<Task | null>;
  storeTaskResult(
    taskId: string,
    status: 'completed' | 'failed',
    result: object,
    sessionId?: string,
  ): Promise<void>;
  getTaskResult(taskId: string, sessionId?: string): Promise<{ [key: string]: unknown }>;
  updateTaskStatus(
    taskId: string,
    status: TaskStatus,
    statusMessage?: string,
    sessionId?: string,
  ): Promise<void>;
  listTasks(cursor?: string, sessionId?: string): Promise<{ tasks: Task[]; nextCursor?: string }>;
}

interface TaskRecord {
  readonly task: Task;
  readonly session?: string;
  readonly result?: JsonObject;
}

const TASK: Schema<TaskRecord> = {
  kind: 'task',
  version: 1,
  read({ task, session, result }) {
    if (!isObject(task) || typeof task['taskId'] !== 'string' || typeof task['ttl'] !== 'number')
      return undefined;
    return {
      task: task as unknown as Task,
      ...(typeof session === 'string' && { session }),
      ...(isObject(result) && { result: result as JsonObject }),
    };
  },
};

const PREFIX = 'adapters/tasks/';
const PAGE = 50;
const MOST_MESSAGE = 1000;
const isOver = (status: TaskStatus): boolean => /^(completed|failed|cancelled)$/.test(status);

/**
 * Stores the tasks of servers on SDK version 1, with their results, for all instances that share the store. A task
 * created in a session cannot be found from another session or without one.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const server = new McpServer(info, { taskStore: taskStore(store), taskMessageQueue: taskMessageQueue(store) });
 * ```
 */
export function taskStore(store: Store, options: TaskStoreOptions = {}): TaskStore {
  checkOptions('taskStore', options, { ttl: ANYTHING, maxTasks: COUNT, maxBytes: BYTES });
  const { maxTasks = 100, maxBytes = 1_048_576 } = options;
  const longest = seconds(options.ttl ?? '24h') * 1000;
  const tasks = collection(store, `${PREFIX}task/`, TASK, { unlisted: true });
  const indexOf = (session: string | undefined) =>
    recordIndex(store, `${PREFIX}of/${session === undefined ? '-' : keyPart(session)}`, {
      max: maxTasks,
      // A task is kept for another lifetime after its end.
      ttl: (2 * longest) / 1000,
      full: () => tooManyTasks(maxTasks),
    });
  const visible = (found: Found<TaskRecord> | undefined, session: string | undefined) =>
    found?.value && found.value.session === session ? found.value : undefined;
  const find = async (taskId: string, session: string | undefined): Promise<TaskRecord | undefined> =>
    visible(await tasks.get(keyPart(taskId)), session);

  /** Updates a task that has not ended. Its lifetime restarts when it ends, and only then. */
  const change = async (
    taskId: string,
    session: string | undefined,
    status: TaskStatus,
    more: (record: TaskRecord) => TaskRecord,
  ): Promise<void> => {
    let left = longest;
    await tasks.update(
      keyPart(taskId),
      (found) => {
        const record = visible(found, session);
        if (!record) throw unknownTask(taskId);
        if (isOver(record.task.status)) throw overTask(taskId, record.task.status);
        const rest = (found?.expiresAt ?? Number.POSITIVE_INFINITY) - clock.now();
        left = isOver(status) ? record.task.ttl : Math.min(record.task.ttl, Math.max(1, rest));
        const lastUpdatedAt = new Date(clock.now()).toISOString();
        return more({ ...record, task: { ...record.task, status, lastUpdatedAt } });
      },
      { ttl: () => left / 1000, durable: true },
    );
  };

  return {
    async createTask({ ttl, pollInterval = 1000 }, _requestId, _request, session) {
      const taskId = randomBytes(16).toString('hex');
      const life = typeof ttl === 'number' && ttl > 0 ? Math.min(ttl, longest) : longest;
      const createdAt = new Date(clock.now()).toISOString();
      const times = { ttl: life, createdAt, lastUpdatedAt: createdAt, pollInterval };
      const task: Task = { taskId, status: 'working', ...times };
      const index = indexOf(session);
      const record = { task, ...(session !== undefined && { session }) };
      try {
        await index.add(taskId);
      } catch (error) {
        if (!(error instanceof ValiseError) || error.code !== 'limit-reached') throw error;
        // Tasks with a short lifetime may have expired and made room.
        const ids = await index.ids();
        const living = await Promise.all(ids.map((id) => find(id, session)));
        await index.remove(ids.filter((_, at) => !living[at]));
        await index.add(taskId);
      }
      await tasks.put(keyPart(taskId), record, { ttl: life / 1000, ifAbsent: true, durable: true });
      return task;
    },
    getTask: async (taskId, session) => (await find(taskId, session))?.task ?? null,
    async storeTaskResult(taskId, status, result, session) {
      const text = JSON.stringify(result);
      if (Buffer.byteLength(text) > maxBytes) throw tooLarge(taskId, maxBytes);
      await change(taskId, session, status, (record) => ({
        ...record,
        result: JSON.parse(text) as JsonObject,
      }));
    },
    async getTaskResult(taskId, session) {
      const record = await find(taskId, session);
      if (!record?.result) throw unknownTask(taskId, record && 'has no result yet');
      return record.result;
    },
    async updateTaskStatus(taskId, status, message, session) {
      const statusMessage = message?.slice(0, MOST_MESSAGE);
      await change(taskId, session, status, (record) =>
        statusMessage ? { ...record, task: { ...record.task, statusMessage } } : record,
      );
    },
    async listTasks(cursor, session) {
      const ids = await indexOf(session).ids();
      const start = cursor === undefined ? 0 : ids.indexOf(cursor) + 1;
      if (cursor !== undefined && start === 0) throw badCursor();
      const page = ids.slice(start, start + PAGE);
      const found = await Promise.all(page.map((id) => find(id, session)));
      const next = start + PAGE < ids.length ? page.at(-1) : undefined;
      return {
        tasks: found.flatMap((record) => (record ? [record.task] : [])),
        ...(next !== undefined && { nextCursor: next }),
      };
    },
  };
}

function unknownTask(taskId: string, what = 'is not known, or no longer'): ValiseError {
  return new ValiseError('not-found', `The task ${JSON.stringify(taskId)} ${what}.`, {
    next: 'Look up its state with tasks/get.',
  });
}

function overTask(taskId: string, status: TaskStatus): ValiseError {
  return new ValiseError('already-done', `The task ${taskId} is ${status} already, and stays as it is.`, {
    next: 'Create a new task.',
    outcome: 'not-done',
  });
}

function tooManyTasks(max: number): ValiseError {
  return new ValiseError('limit-reached', `The task was not created: there are ${max} tasks already.`, {
    next: 'Wait until tasks have expired, ask for shorter lifetimes, or raise maxTasks.',
    outcome: 'not-done',
  });
}

function tooLarge(taskId: string, max: number): ValiseError {
  return new ValiseError('too-large', `The result of the task ${taskId} is over ${max} bytes.`, {
    next: 'Return less, or raise maxBytes.',
    outcome: 'not-done',
  });
}

function badCursor(): ValiseError {
  return new ValiseError('invalid-argument', 'The list of tasks cannot be continued from this cursor.', {
    next: 'List from the start.',
  });
}

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

const QUEUE: Schema<Queue> = {
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
  const queues = collection(store, 'adapters/task-messages/', QUEUE, { unlisted: true });

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
        if (messages.length >= most || bytes > maxBytes) throw queueFull(taskId);
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

function queueFull(taskId: string): ValiseError {
  return new ValiseError('limit-reached', `Too many messages wait for the task ${taskId}.`, {
    next: 'Wait until the client has fetched them with tasks/result.',
    outcome: 'not-done',
  });
}

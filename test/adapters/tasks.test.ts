import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type {
  QueuedMessage,
  TaskMessageQueue,
  TaskStore,
} from '@modelcontextprotocol/sdk/experimental/tasks/interfaces.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { CallToolResultSchema, CreateTaskResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { taskMessageQueue, taskStore } from 'mcp-valise/adapters';
import { memoryStore, type Store } from 'mcp-valise/store';
import { virtualClock } from 'mcp-valise/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { places } from './places.ts';

const REQUEST = { method: 'tools/call', params: {} };
const create = (tasks: TaskStore, session?: string, ttl?: number) =>
  tasks.createTask(ttl === undefined ? {} : { ttl }, 1, REQUEST, session);

const message = (n: number): QueuedMessage => ({
  type: 'notification',
  timestamp: n,
  message: { jsonrpc: '2.0', method: 'notifications/n' },
});

/** A stock client of an instance whose tool becomes a task, which goes on once `work` is done. */
async function connect(store: Store, work: Promise<void>): Promise<Client> {
  const server = new McpServer(
    { name: 'tasks', version: '1.0.0' },
    {
      capabilities: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
      taskStore: taskStore(store),
      taskMessageQueue: taskMessageQueue(store),
    },
  );
  server.experimental.tasks.registerToolTask(
    'slow',
    { execution: { taskSupport: 'required' } },
    {
      async createTask(extra) {
        const task = await extra.taskStore.createTask({ ttl: 60_000, pollInterval: 10 });
        const finish = () =>
          extra.taskStore.storeTaskResult(task.taskId, 'completed', {
            content: [{ type: 'text', text: 'done' }],
          });
        void work.then(finish);
        return { task };
      },
      getTask: (extra) => extra.taskStore.getTask(extra.taskId),
      getTaskResult: async (extra) =>
        CallToolResultSchema.parse(await extra.taskStore.getTaskResult(extra.taskId)),
    },
  );
  const [near, far] = InMemoryTransport.createLinkedPair();
  await server.connect(far);
  const client = new Client({ name: 'stock', version: '1.0.0' });
  await client.connect(near);
  onTestFinished(() => client.close());
  return client;
}

describe.each(places)('taskStore on %s', (_, share) => {
  it('lets a stock client fetch at another instance what a task of the first one has made', async () => {
    const open = share();
    let finish = (): void => {};
    const work = new Promise<void>((resolve) => void (finish = resolve));
    const first = await connect(await open(), work);
    const second = await connect(await open(), work);
    const params = { name: 'slow', arguments: {}, task: { ttl: 60_000 } };
    const { task } = await first.request({ method: 'tools/call', params }, CreateTaskResultSchema);
    expect(await second.experimental.tasks.getTask(task.taskId)).toMatchObject({ status: 'working' });
    const result = second.experimental.tasks.getTaskResult(task.taskId, CallToolResultSchema);
    finish();
    expect(await result).toMatchObject({ content: [{ type: 'text', text: 'done' }] });
    expect((await second.experimental.tasks.listTasks()).tasks).toMatchObject([
      { taskId: task.taskId, status: 'completed' },
    ]);
  });

  it('gives a task one end, whichever instance comes first', async () => {
    const open = share();
    const instances: TaskStore[] = [taskStore(await open()), taskStore(await open())];
    const { taskId } = await create(instances[0] as TaskStore);
    const ends = await Promise.allSettled([
      instances[0]?.storeTaskResult(taskId, 'completed', { content: [] }),
      instances[1]?.updateTaskStatus(taskId, 'cancelled', 'enough'),
    ]);
    expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(ends.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'already-done' },
    });
  });

  it('shows a task to its own session alone', async () => {
    const tasks: TaskStore = taskStore(await share()());
    const { taskId } = await create(tasks, 'one');
    expect(await tasks.getTask(taskId, 'one')).toMatchObject({ taskId });
    for (const session of ['other', undefined]) {
      expect(await tasks.getTask(taskId, session)).toBeNull();
      expect((await tasks.listTasks(undefined, session)).tasks).toEqual([]);
      await expect(tasks.getTaskResult(taskId, session)).rejects.toMatchObject({ code: 'not-found' });
      await expect(tasks.updateTaskStatus(taskId, 'cancelled', '', session)).rejects.toMatchObject({
        code: 'not-found',
      });
    }
  });

  it('lists tasks in pages, and refuses those beyond maxTasks', async () => {
    const tasks: TaskStore = taskStore(await share()(), { maxTasks: 60 });
    for (let n = 0; n < 60; n++) await create(tasks, 's');
    await expect(create(tasks, 's')).rejects.toMatchObject({ code: 'limit-reached' });
    await create(tasks, 'another');
    const first = await tasks.listTasks(undefined, 's');
    const second = await tasks.listTasks(first.nextCursor, 's');
    expect(second.nextCursor).toBeUndefined();
    expect(new Set([...first.tasks, ...second.tasks].map(({ taskId }) => taskId)).size).toBe(60);
    await expect(tasks.listTasks('made-up', 's')).rejects.toMatchObject({ code: 'invalid-argument' });
  });
});

describe.each(places)('taskMessageQueue on %s', (_, share) => {
  it('hands out each message once and in order, to whichever instance asks', async () => {
    const open = share();
    const instances: TaskMessageQueue[] = [taskMessageQueue(await open()), taskMessageQueue(await open())];
    const [first, second] = instances as [TaskMessageQueue, TaskMessageQueue];
    for (let n = 0; n < 20; n++) await first.enqueue('task', message(n), 's');
    expect(await second.dequeue('task', 's')).toEqual(message(0));
    expect(await second.dequeue('task', 'another')).toBeUndefined();
    const taken = await Promise.all(
      Array.from({ length: 10 }, (_, n) => (n % 2 ? first : second).dequeue('task', 's')),
    );
    expect(taken.map((one) => one?.timestamp).sort((a = 0, b = 0) => a - b)).toEqual(
      Array.from({ length: 10 }, (_, n) => n + 1),
    );
    expect((await first.dequeueAll('task', 's')).map(({ timestamp }) => timestamp)).toEqual(
      Array.from({ length: 9 }, (_, n) => n + 11),
    );
    expect(await second.dequeueAll('task', 's')).toEqual([]);
  });

  it('refuses messages beyond the size that the SDK asks for', async () => {
    const queue: TaskMessageQueue = taskMessageQueue(await share()());
    await queue.enqueue('task', message(1), undefined, 1);
    await expect(queue.enqueue('task', message(2), undefined, 1)).rejects.toMatchObject({
      code: 'limit-reached',
    });
  });
});

describe('taskStore', () => {
  it('counts the bytes of queued messages, not their characters', async () => {
    const queue = taskMessageQueue<{ text: string }>(memoryStore(), { maxBytes: 1024 });
    await queue.enqueue('task', { text: '漢'.repeat(200) });
    await expect(queue.enqueue('task', { text: '漢'.repeat(200) })).rejects.toMatchObject({
      code: 'limit-reached',
    });
  });

  it('ends every task: one without a lifetime after ttl, one with a result a lifetime after it', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const store = memoryStore();
    const tasks: TaskStore = taskStore(store, { ttl: '2h', maxTasks: 2 });
    const unlimited = await tasks.createTask({ ttl: null }, 1, REQUEST);
    expect(unlimited.ttl).toBe(7_200_000);
    const short = await create(tasks, undefined, 3_600_000);
    await clock.advance('50m');
    await tasks.updateTaskStatus(short.taskId, 'input_required');
    await tasks.storeTaskResult(short.taskId, 'completed', { content: [] });
    await clock.advance('50m');
    expect(await tasks.getTaskResult(short.taskId)).toEqual({ content: [] });
    await clock.advance('30m');
    expect(await tasks.getTask(short.taskId)).toBeNull();
    expect(await tasks.getTask(unlimited.taskId)).toBeNull();
    // What has expired counts no longer.
    await create(tasks);
    await clock.advance('5h');
    expect((await store.list('')).keys).toEqual([]);
  });

  it('does not prolong a task that only changes its status', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const tasks: TaskStore = taskStore(memoryStore());
    const { taskId } = await create(tasks, undefined, 3_600_000);
    for (let n = 0; n < 3; n++) {
      await clock.advance('25m');
      if (n < 2) await tasks.updateTaskStatus(taskId, 'working');
    }
    expect(await tasks.getTask(taskId)).toBeNull();
  });

  it('refuses a result over maxBytes, and the task stays as it is', async () => {
    const tasks: TaskStore = taskStore(memoryStore(), { maxBytes: 1024 });
    const { taskId } = await create(tasks);
    const large = { text: 'x'.repeat(2000) };
    await expect(tasks.storeTaskResult(taskId, 'completed', large)).rejects.toMatchObject({
      code: 'too-large',
    });
    expect(await tasks.getTask(taskId)).toMatchObject({ status: 'working' });
  });
});

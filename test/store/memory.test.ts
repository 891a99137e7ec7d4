import { busContract, storeContract } from 'mcp-valise/testing';
import { describe, expect, it } from 'vitest';
import { memoryBus } from '../../src/store/memory/bus.ts';
import { memoryStore } from '../../src/store/memory/store.ts';

storeContract(
  () => ({ open: memoryStore }),
  { describe, it },
  { name: 'memory', reopens: false, processes: false },
);

busContract(() => memoryBus('contract'), { describe, it }, { name: 'memory' });

describe('a memory bus', () => {
  it('A memory bus without a name shares messages with no other bus', async () => {
    const [one, two] = [memoryBus(), memoryBus()];
    const heard: unknown[] = [];
    await two.subscribe('topic', (message) => heard.push(message));
    await one.subscribe('topic', (message) => heard.push(['own', message]));
    await one.publish('topic', 1);
    await new Promise(setImmediate);
    expect(heard).toEqual([['own', 1]]);
  });
});

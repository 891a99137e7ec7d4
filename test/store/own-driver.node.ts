import { describe, it } from 'node:test';
import { storeContract } from 'mcp-valise/testing';
import { ownStore } from './own-driver.ts';

storeContract(
  () => ({ open: ownStore }),
  { describe, it },
  { name: 'my own', reopens: false, processes: false, scale: 0.1 },
);

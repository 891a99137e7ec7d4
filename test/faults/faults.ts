import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect } from 'vitest';
import type { Service } from '../services.ts';
import type { Wire } from '../store/proxy.ts';

/** Freezes the network for 5 seconds. */
export async function frozen(wire: Wire): Promise<void> {
  const thaw = wire.freeze();
  await pause(5000);
  thaw();
}

/** Ends PostgreSQL at once and without a checkpoint, as a crash does. */
export async function crash(postgres: Service): Promise<void> {
  process.kill(postgres.pid, 'SIGQUIT');
  await expect.poll(() => isAlive(postgres.pid), { timeout: 10_000, interval: 20 }).toBe(false);
}

/** Fills a disk to the last byte, and makes room again after 4 seconds. */
export async function fullDisk(folder: string): Promise<void> {
  const file = `${folder}/filler`;
  const fill = openSync(file, 'w');
  const block = Buffer.alloc(4096);
  try {
    for (;;) writeSync(fill, block);
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC');
  }
  closeSync(fill);
  await pause(4000);
  rmSync(file);
}

/** Has another process hold the write lock of an SQLite file for 4 seconds. */
export async function locked(file: string, within: readonly string[]): Promise<void> {
  const library = createRequire(import.meta.url).resolve('better-sqlite3');
  const text = `const Database = require(${JSON.stringify(library)}); const db = new Database(${JSON.stringify(file)}, { timeout: 5000 });
    db.exec('BEGIN EXCLUSIVE'); console.log('locked'); setTimeout(() => { db.exec('ROLLBACK'); db.close(); }, 4000);`;
  const [command = '', ...args] = [...within, process.execPath, '-e', text];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [code] = (await once(child, 'close')) as [number];
  expect(code).toBe(0);
}

/** Waits until something is true of a Redis server. */
export async function until(service: Service, test: (admin: Redis) => Promise<boolean>): Promise<void> {
  const admin = new Redis(service.url);
  admin.on('error', () => {});
  try {
    await expect.poll(() => test(admin), { timeout: 30_000, interval: 100 }).toBe(true);
  } finally {
    admin.disconnect();
  }
}

/** Whether a node of a cluster is known to be dead, and all slots are served by others. */
export function hasTakenOver(nodes: string, { port }: Service): boolean {
  const lines = nodes.trim().split('\n');
  const dead = lines.find((line) => line.includes(`127.0.0.1:${port}@`));
  return dead?.includes('master,fail ') === true && !/ \d+-\d+/.test(dead);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

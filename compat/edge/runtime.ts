import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { generateKey } from 'mcp-valise/seal';
import { Miniflare } from 'miniflare';

/** Bundles a Worker as wrangler does. */
export async function bundled(file: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(file, import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    conditions: ['workerd', 'worker', 'browser'],
    mainFields: ['browser', 'module', 'main'],
    // Drivers as if they were not installed: esbuild leaves those alone, and nobody loads them there.
    external: ['node:*', 'cloudflare:*', 'ioredis', 'pg', '@napi-rs/keyring'],
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}

/** Cloudflare's runtime, with Durable Objects and KV on disk. */
export class Runtime {
  readonly #folder = mkdtempSync(join(tmpdir(), 'valise-edge-'));
  readonly #script: string;
  readonly #bindings: Readonly<Record<string, string>>;
  #running: Miniflare;
  #port = 0;

  private constructor(script: string, bindings: Readonly<Record<string, string>>) {
    this.#script = script;
    this.#bindings = { VALISE_KEYS: generateKey(), ...bindings };
    this.#running = this.#start();
  }

  static async start(bindings: Readonly<Record<string, string>> = {}): Promise<Runtime> {
    const runtime = new Runtime(await bundled('./worker.ts'), bindings);
    runtime.#port = Number((await runtime.#running.ready).port);
    return runtime;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${this.#port}/mcp`);
  }

  get miniflare(): Miniflare {
    return this.#running;
  }

  /** Ends the runtime and starts another one on the same data. */
  async restart(): Promise<void> {
    await this.#running.dispose();
    this.#running = this.#start();
    await this.#running.ready;
  }

  async stop(): Promise<void> {
    await this.#running.dispose();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #start(): Miniflare {
    return new Miniflare({
      host: '127.0.0.1',
      port: this.#port,
      modules: [{ type: 'ESModule', path: 'worker.mjs', contents: this.#script }],
      compatibilityDate: '2026-07-01',
      compatibilityFlags: ['nodejs_compat'],
      bindings: this.#bindings,
      durableObjects: { STORE: { className: 'InspectedObject', useSQLite: true } },
      durableObjectsPersist: join(this.#folder, 'objects'),
      kvNamespaces: ['KV'],
      kvPersist: join(this.#folder, 'kv'),
    });
  }
}

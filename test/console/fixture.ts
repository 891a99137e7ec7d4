import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { need } from '../../scripts/services/install.mjs';
import { VALISE } from '../cli/valise.ts';

/** Whether tests with programs from Debian's packages run. */
export const HAS_BROWSER = process.env['VALISE_NO_SERVICES'] !== '1';

/** A process that a test has started, and the first address that it printed. */
export interface Served {
  readonly url: string;
  readonly child: ChildProcess;
}

/** Everything that a test file starts. It ends with `close()`. */
export class Fixture {
  readonly #ends: (() => Promise<unknown>)[] = [];
  #browser: Promise<Browser> | undefined;
  folder = '';

  static async open(): Promise<Fixture> {
    const fixture = new Fixture();
    fixture.folder = await mkdtemp(join(tmpdir(), 'valise-console-'));
    fixture.#ends.push(() => rm(fixture.folder, { recursive: true, force: true }));
    return fixture;
  }

  /** The URL of a store in the fixture's own folder. */
  store(name = 'client'): string {
    return `sqlite:${join(this.folder, `${name}.db`)}`;
  }

  /** Starts `valise …` and waits until it prints an address. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Served> {
    return this.run([VALISE, ...args], env);
  }

  /** Starts `node …` and waits until it prints an address. */
  async run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Served> {
    const { VALISE_KEYS: _keys, VALISE_CLIENT_KEYS: _own, VALISE_STORE: _store, ...inherited } = process.env;
    const child = spawn(process.execPath, args, {
      env: { ...inherited, HOME: this.folder, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#ends.push(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'close');
      child.kill('SIGTERM');
      await gone;
    });
    let said = '';
    const url = await new Promise<string>((resolve, reject) => {
      const listen = (chunk: unknown): void => {
        said += String(chunk);
        const found = /(https?:\/\/127\.0\.0\.1:[^\s"]+)/.exec(said)?.[1];
        if (found) resolve(found);
      };
      child.stdout?.on('data', listen);
      child.stderr?.on('data', listen);
      child.once('close', () => reject(new Error(`it ended: ${said}`)));
    });
    return { url, child };
  }

  /** Starts `valise console`. */
  console(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Served> {
    return this.start(['console', '--json', '--no-browser', '--allow-local', ...args], env);
  }

  /** Opens a page in a context of its own, with errors and violations of the policy collected. */
  async page(
    url: string,
    options: Parameters<Browser['newContext']>[0] = {},
    isConsole = true,
  ): Promise<Opened> {
    this.#browser ??= chromium.launch({
      executablePath: need('chromium', 'chromium'),
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    });
    const browser = await this.#browser;
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(15_000);
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    page.on('console', (message) => {
      if (message.type() === 'error') errors.push(message.text());
    });
    await page.goto(url);
    // The link leads to the page by itself.
    if (isConsole) await page.locator('.shell').waitFor();
    return { page, context, errors };
  }

  async close(): Promise<void> {
    await (await this.#browser)?.close();
    for (const end of this.#ends.reverse()) await end();
  }
}

/** A page that a test has opened. */
export interface Opened {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly errors: readonly string[];
}

/** An answer to a raw request. */
export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** Sends a request exactly as given, also one that no browser would send. */
export function ask(
  url: string,
  {
    method = 'GET',
    headers = {},
    body,
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

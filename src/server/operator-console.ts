import { kidOf } from '../seal/token.ts';
import type { ServerContext } from './context.ts';
import type { ServerEvents } from './events.ts';
import type { FlowCounts } from './flows/counters.ts';
import type { SealWatch } from './own-keys.ts';

/** The part of a server's API that shows its operator what this process sees. */
export interface OperatorApi {
  /**
   * Returns a web-standard handler that shows what this process sees: flows, rejections by reason over the last hour, and the
   * keys that clients' seals were made with. It counts from the first call on.
   *
   * It only reads, and it checks nobody: mount it behind your own authentication, under a path that ends with a slash. It
   * answers JSON under `api/`, and the page itself if `mcp-valise-cli` is installed.
   *
   * @example
   * ```ts
   * const operator = valise.console();
   * app.all('/operator/*', requireAdmin, (context) => operator(context.req.raw)); // Hono
   * ```
   */
  console(): (request: Request) => Promise<Response>;
}

/** What the handler shows. */
interface Parts {
  readonly context: ServerContext;
  readonly seals: SealWatch;
  flows(): FlowCounts;
}

/** Rejections of one family for one reason. */
interface Rejected {
  readonly family: string;
  readonly reason: string;
  total: number;
  readonly minutes: Map<number, number>;
}

/** How many minutes are shown, and how many different reasons are told apart. */
const MINUTES = 60;
const MAX_REASONS = 100;
/** How many keys are told apart. A client may name any key. */
const MAX_KEYS = 100;
/** How often an open page is told to look again, in milliseconds. */
const REFRESH = 3000;

/**
 * Headers of the console's page, here and in `valise console`: nothing inline, nothing from elsewhere, no frames, and no
 * markup from strings.
 */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
  'cache-control': 'no-store',
};

/** What a reason may mean, for those that an operator can act on. */
const MEANINGS: Readonly<Record<string, string>> = {
  expired: 'Clients came back too late. If this is frequent, allow more time.',
  'unknown-key':
    'Something was sealed with a key that is not on this keyring: an instance has other keys, or an old key was dropped too early.',
  tampered: 'A seal was changed on its way, or somebody tries to forge one.',
  malformed: 'A text that is no seal: a faulty client, or somebody who tries.',
  'wrong-subject':
    'A seal of one principal came from another: a shared client, or somebody who tries a stolen one.',
  'wrong-binding': 'A seal was used with another call or session than it was made for.',
  'wrong-audience': 'A seal of another server: two servers share their keys, and a client mixed them up.',
  replayed: 'An answer that works once came twice: a client that repeats requests, or a replay.',
};

/** Creates the operator's part of the API. */
export function operatorApi(parts: Parts): OperatorApi {
  let seen: Seen | undefined;
  return {
    console() {
      seen ??= new Seen(parts);
      const own = seen;
      return (request) => answer(own, request);
    },
  };
}

/** Counts what happens from now on. */
class Seen {
  readonly parts: Parts;
  readonly #rejected = new Map<string, Rejected>();
  readonly #keys = new Map<string, number>();

  constructor(parts: Parts) {
    this.parts = parts;
    parts.context.events.on('rejected', (event) => this.#reject(event));
    parts.seals.opened = (token) => {
      const kid = kidOf(token, Number.POSITIVE_INFINITY);
      if (kid !== undefined && (this.#keys.has(kid) || this.#keys.size < MAX_KEYS))
        this.#keys.set(kid, (this.#keys.get(kid) ?? 0) + 1);
    };
  }

  get rejections(): object[] {
    const now = minuteOf(Date.now());
    return [...this.#rejected.values()]
      .sort((one, other) => other.total - one.total)
      .map(({ family, reason, total, minutes }) => ({
        family,
        reason,
        total,
        minutes: Array.from({ length: MINUTES }, (_, at) => minutes.get(now - MINUTES + 1 + at) ?? 0),
        means: MEANINGS[reason] ?? 'See the documentation of the family.',
      }));
  }

  get keys(): object[] {
    const { kid: own } = this.parts.context.sealer;
    const counts = new Map([[own, 0], ...this.#keys]);
    return [...counts].map(([kid, entries]) => ({ kid, phase: kid === own ? 'seals' : 'opens', entries }));
  }

  #reject({ family, reason }: ServerEvents['rejected']): void {
    const key = `${family} ${reason}`;
    if (!this.#rejected.has(key) && this.#rejected.size >= MAX_REASONS) return;
    const rejected = this.#rejected.get(key) ?? { family, reason, total: 0, minutes: new Map() };
    this.#rejected.set(key, rejected);
    const now = minuteOf(Date.now());
    rejected.total++;
    rejected.minutes.set(now, (rejected.minutes.get(now) ?? 0) + 1);
    for (const minute of rejected.minutes.keys())
      if (minute <= now - MINUTES) rejected.minutes.delete(minute);
  }
}

function minuteOf(time: number): number {
  return Math.floor(time / 60_000);
}

const IN_STORE = 'What is in the store is shown by: valise console --server STORE';

async function answer(seen: Seen, request: Request): Promise<Response> {
  if (request.method !== 'GET' && request.method !== 'HEAD') return plain(405, 'This console only reads.');
  const { pathname } = new URL(request.url);
  const at = pathname.lastIndexOf('/api/');
  const path = at < 0 ? undefined : pathname.slice(at + '/api/'.length);
  if (path === undefined) return page(pathname);
  const { context, flows } = seen.parts;
  switch (path) {
    case 'meta':
      return json({ mode: 'server', write: false, store: `this process of ${context.name}`, quota: 0 });
    case 'live':
      return live(request.signal);
    case 'operator/sessions':
      return json({ sessions: [], unseen: IN_STORE });
    case 'operator/flows':
      return json({ flows: [], counts: flows(), unseen: IN_STORE });
    case 'operator/rejections':
      return json({ rejections: seen.rejections });
    case 'operator/store':
      return json({ keys: seen.keys, isTraffic: true });
    default:
      return plain(404, 'Not found.');
  }
}

const FILES: Readonly<Record<string, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'app.js': 'text/javascript; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
};

/** Returns a file of the page, which is in the package of the command line. */
async function page(pathname: string): Promise<Response> {
  const name = pathname.split('/').at(-1) || 'index.html';
  const type = Object.hasOwn(FILES, name) ? FILES[name] : undefined;
  if (type === undefined) return plain(404, 'There is no such page. Its path ends with a slash.');
  try {
    const [{ readFile }, { createRequire }] = await Promise.all([
      import('node:fs/promises'),
      import('node:module'),
    ]);
    const manifest = createRequire(import.meta.url).resolve('mcp-valise-cli/package.json');
    const content = await readFile(manifest.replace(/package\.json$/, `dist/console/${name}`));
    return new Response(content, { headers: { ...PAGE_HEADERS, 'content-type': type } });
  } catch {
    return plain(
      501,
      'The page is in the package mcp-valise-cli: npm install mcp-valise-cli. JSON is under api/.',
    );
  }
}

/** Tells an open page from time to time to look again. */
function live(signal: AbortSignal): Response {
  let timer: ReturnType<typeof setInterval> | undefined;
  const stop = (): void => clearInterval(timer);
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      const news = new TextEncoder().encode('data: {"changed":["operator"]}\n\n');
      controller.enqueue(news);
      timer = setInterval(() => controller.enqueue(news), REFRESH);
      signal.addEventListener('abort', stop, { once: true });
    },
    cancel: stop,
  });
  return new Response(body, { headers: { ...PAGE_HEADERS, 'content-type': 'text/event-stream' } });
}

function json(value: object): Response {
  return Response.json(value, { headers: PAGE_HEADERS });
}

function plain(status: number, words: string): Response {
  return new Response(`${words}\n`, { status, headers: { ...PAGE_HEADERS, 'content-type': 'text/plain' } });
}

import { isObject } from '../../core/json.ts';
import { withTimeout } from '../../store/kit/clock.ts';
import type { ServerContext } from '../context.ts';
import { flowSeal } from '../flows/records.ts';
import { Activity, type ActivitySources } from './activity.ts';
import { sessionAt, storedFlows, storedSessions } from './records.ts';
import { readReports, recordActivity } from './reports.ts';
import { type ActivitySummary, summarize } from './summary.ts';

/** The part of a server's API that shows its operator what the server sees. */
export interface OperatorApi {
  /**
   * Returns a web-standard handler that shows sessions by principal against their limits, flows, rejections by reason over
   * the last hour, store errors, listeners, and the keys that clients' seals were made with.
   *
   * It counts what this process sees from the first call on. With the option `recordEvents` of `createValise`, it shows the
   * counts of every instance.
   *
   * With `write`, the page can revoke sessions. By default it only reads.
   *
   * It checks nobody: mount it behind your own authentication, under a path that ends with a slash. It answers JSON under
   * `api/`, and the page itself if `mcp-valise-cli` is installed.
   *
   * @example
   * ```ts
   * const operator = valise.console();
   * app.all('/operator/*', requireAdmin, (context) => operator(context.req.raw)); // Hono
   * ```
   */
  console(options?: { readonly write?: boolean | undefined }): (request: Request) => Promise<Response>;
}

/** What the handler shows. */
interface OperatorSources extends ActivitySources {
  readonly recordEvents: boolean;
  revoke(id: string): Promise<boolean>;
}

/** Creates the operator's part of the API. `close` writes the last report. */
export function createOperator(sources: OperatorSources): {
  readonly api: OperatorApi;
  close(): Promise<void>;
} {
  const { context, recordEvents } = sources;
  const activity = new Activity(sources);
  const stop =
    recordEvents && context.store ? recordActivity(context.store, context.name, activity) : undefined;
  return {
    api: {
      console({ write = false } = {}) {
        activity.start();
        const summary = (): Promise<ActivitySummary> => summaryOf(context, activity);
        return (request) => answer({ context, summary, write, revoke: sources.revoke }, request);
      },
    },
    close: async () => stop?.(),
  };
}

/** Sums up what this process sees now, and what others have recorded. */
async function summaryOf({ store, name }: ServerContext, activity: Activity): Promise<ActivitySummary> {
  const own = activity.report();
  // A store that does not answer must not keep the operator from seeing its errors.
  const recorded = store
    ? await withTimeout(readReports(store, name), PATIENCE, () => []).catch(() => [])
    : [];
  return summarize([...recorded.filter(({ id }) => id !== own.id), own]);
}

/** How long the reports of other processes are waited for, in milliseconds. */
const PATIENCE = 1000;
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

/** What a request to the handler needs. */
interface Shown {
  readonly context: ServerContext;
  readonly write: boolean;
  summary(): Promise<ActivitySummary>;
  revoke(id: string): Promise<boolean>;
}

const NO_STORE = 'This server has no store, so sessions and flows are with their clients.';

async function answer(shown: Shown, request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const at = pathname.lastIndexOf('/api/');
  const path = at < 0 ? undefined : pathname.slice(at + '/api/'.length);
  if (request.method === 'POST' && path === 'operator/revoke') return revoke(shown, request);
  if (request.method !== 'GET' && request.method !== 'HEAD') return plain(405, 'This console only reads.');
  if (path === undefined) return page(pathname);
  const { context, write, summary } = shown;
  const { store, name, sealer } = context;
  switch (path) {
    case 'meta':
      return json({ mode: 'server', write, store: `${name}, in process ${process.pid}`, quota: 0 });
    case 'live':
      return live(request.signal);
    case 'operator/sessions': {
      const { limits } = await summary();
      const sessions = store ? await storedSessions(store) : [];
      return json({ sessions, limits, canRevoke: write, ...(!store && { unseen: NO_STORE }) });
    }
    case 'operator/flows': {
      const open = (key: string, token: string): unknown => {
        try {
          return sealer.open(token, flowSeal(key));
        } catch {
          // The record belongs to another server, or its key is not here.
          return undefined;
        }
      };
      const flows = store ? await storedFlows(store, open) : [];
      return json({ flows, counts: (await summary()).flows, ...(!store && { unseen: NO_STORE }) });
    }
    case 'operator/rejections':
      return json({ rejections: (await summary()).rejections });
    case 'operator/store': {
      const { keys, storeErrors, processes } = await summary();
      return json({ traffic: keys, storeErrors, processes });
    }
    default:
      return plain(404, 'Not found.');
  }
}

/** Revokes a session. Another site cannot send JSON, and a browser says which site a request comes from. */
async function revoke(
  { context: { store }, write, revoke: end }: Shown,
  request: Request,
): Promise<Response> {
  if (!write) return plain(405, 'This console only reads.');
  const site = request.headers.get('sec-fetch-site');
  const isJson = /^application\/json\b/.test(request.headers.get('content-type') ?? '');
  if (!isJson || (site !== null && site !== 'same-origin'))
    return plain(403, 'This request does not come from the console’s own page.');
  const body: unknown = await request.json().catch(() => undefined);
  const key = isObject(body) ? body['id'] : undefined;
  const id = store && typeof key === 'string' ? await sessionAt(store, key) : undefined;
  if (id === undefined)
    return json({ error: { code: 'not-found', message: 'This session is no longer in the store.' } }, 404);
  return json({ revoked: await end(id) });
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

function json(value: object, status = 200): Response {
  return Response.json(value, { status, headers: PAGE_HEADERS });
}

function plain(status: number, words: string): Response {
  return new Response(`${words}\n`, { status, headers: { ...PAGE_HEADERS, 'content-type': 'text/plain' } });
}

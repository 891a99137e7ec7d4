import { AsyncResource } from 'node:async_hooks';
import { isObject } from '../../core/json.ts';
import { checkArgument, checkOptions, FLAG, FUNCTION, type Taken, type TakenBy } from '../../core/options.ts';
import { NAMES } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { ServerLike } from '../sdk-server.ts';
import { isReusable } from './reusable.ts';
import { ReusedServer } from './server.ts';

/** Options of `valise.factory`. */
export interface FactoryOptions {
  /**
   * Whether servers are reused between requests.
   *
   * A function that takes the request's context builds servers for that request, so by default its servers are not reused. With
   * `true` they are, and the function receives nothing of the context but its `era`.
   *
   * @defaultValue true for a function without parameters, else false
   */
  readonly reuse?: boolean | undefined;
  /**
   * The maximum number of idle servers for each protocol era.
   *
   * @defaultValue 32
   */
  readonly maxIdle?: number | undefined;
}

/** Builds a server for each request. Its caller determines the arguments. */
export type BuildServer = (...context: never[]) => ServerLike | Promise<ServerLike>;

const COUNT: Taken = [
  'a whole number from 0 to 10000',
  (value) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= 10_000,
];
const TAKEN: TakenBy<FactoryOptions> = { reuse: FLAG, maxIdle: COUNT };
const MAX_IDLE = 32;

/** Creates the function that `ServerValise.factory` returns. */
export function createFactory<Build extends BuildServer>(
  build: Build,
  options: FactoryOptions,
  install: (server: ServerLike) => ServerLike,
  warnOnce: ServerContext['warnOnce'],
): Build {
  checkArgument('valise.factory', build, FUNCTION);
  checkOptions('valise.factory', options, TAKEN);
  const pool = new Pool(options.maxIdle ?? MAX_IDLE, warnOnce);
  if (!(options.reuse ?? build.length === 0))
    return ((...context: never[]) => after(build(...context), install)) as Build;
  // Runs in the async context of whoever made the factory, since a shared server must not be built for the user of one request.
  const buildApart = AsyncResource.bind((context?: unknown) => build(...([context] as never[])));
  let isAsync = false;
  const make = (context: unknown): ServerLike | Promise<ServerLike> => {
    const kind = kindOf(context);
    const idle = pool.take(kind);
    if (idle) return isAsync ? Promise.resolve(idle) : idle;
    const built = build.length === 0 ? buildApart() : buildApart({ era: kind });
    isAsync = built instanceof Promise;
    return after(built, (server) => pool.add(server, kind, install));
  };
  return ((...context: never[]) => make(context[0])) as Build;
}

/** Idle servers, by the era that they were built for. */
class Pool {
  readonly #max: number;
  readonly #warnOnce: ServerContext['warnOnce'];
  readonly #idle = new Map<string | undefined, ReusedServer[]>();
  /** Servers that have just been closed. */
  #closed: [ReusedServer, ReusedServer[]][] = [];
  #isStopped = false;

  constructor(max: number, warnOnce: ServerContext['warnOnce']) {
    this.#max = max;
    this.#warnOnce = warnOnce;
  }

  take(kind: string | undefined): ServerLike | undefined {
    const idle = this.#idle.get(kind);
    for (let server = idle?.pop(); server; server = idle?.pop()) {
      // Code of the last request may have changed it in the meantime.
      if (server.isAsBuilt()) return server.lend();
    }
    return undefined;
  }

  add(server: ServerLike, kind: string | undefined, install: (server: ServerLike) => ServerLike): ServerLike {
    if (this.#isStopped || !isReusable(server)) return install(server);
    const idle = this.#idle.get(kind) ?? [];
    this.#idle.set(kind, idle);
    const reused = new ReusedServer(server, {
      idle: (each) => this.#give(each, idle),
      stray: () => this.#stop(),
    });
    install(server);
    reused.remember();
    return reused.lend();
  }

  /**
   * Returns a server to the pool, but not immediately. Code that closes a transport often closes its server right after, which
   * must not end somebody else's connection.
   */
  #give(server: ReusedServer, idle: ReusedServer[]): void {
    this.#closed.push([server, idle]);
    if (this.#closed.length === 1) setImmediate(() => this.#settle());
  }

  #settle(): void {
    for (const [server, idle] of this.#closed.splice(0))
      if (!this.#isStopped && idle.length < this.#max && server.isAsBuilt()) idle.push(server);
  }

  #stop(): void {
    this.#isStopped = true;
    for (const idle of this.#idle.values()) idle.length = 0;
    this.#warnOnce('server-not-reused', {
      what: 'A server sent a message outside of any request, so the servers of its factory are not reused from now on.',
      next: 'Send with what the handler is given (ctx.mcpReq.notify, extra.sendNotification), or give valise.factory reuse: false.',
    });
  }
}

const KINDS: ReadonlySet<string> = new Set(Object.keys(NAMES));

/** Returns the era that a server is requested for. SDK v2 names it, SDK v1 has only one. Other values share one list. */
function kindOf(context: unknown): string | undefined {
  const kind = isObject(context) ? context['era'] : undefined;
  return typeof kind === 'string' && KINDS.has(kind) ? kind : undefined;
}

function after<Value, Result>(
  value: Value | Promise<Value>,
  then: (value: Value) => Result,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(then) : then(value);
}

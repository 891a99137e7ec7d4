/** A private server on loopback that ends with the process that started it. */
export interface Service {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  /** The server's own process; another one after `restart()`. */
  readonly pid: number;
  /** Starts it again on the same port after `halt()`, with its data. */
  start(): Promise<void>;
  /** Ends it in good order; its data stays. */
  halt(): Promise<void>;
  /** `halt()`, then `start()`. */
  restart(): Promise<void>;
  /** Ends it for good and removes its data. */
  stop(): Promise<void>;
}

export type ServiceKind = 'redis' | 'postgres';

/** The servers that speak the protocol of Redis. */
export type RedisEngine = 'redis' | 'valkey';
/** Whether Valkey is installed, or can be installed now. */
export function hasValkey(): boolean;
export function startRedis(options?: {
  cluster?: boolean;
  args?: string[];
  disk?: string;
  engine?: RedisEngine;
}): Promise<Service>;
/** Several Redis servers that work together. */
export interface RedisFleet {
  readonly url: string;
  readonly nodes: readonly Service[];
  stop(): Promise<void>;
}
export function startRedisCluster(options?: {
  masters?: number;
  replicas?: number;
  args?: string[];
  engine?: RedisEngine;
}): Promise<RedisFleet>;
export function startRedisSentinel(options?: {
  replicas?: number;
  engine?: RedisEngine;
}): Promise<RedisFleet>;
export function startPostgres(options?: { settings?: Record<string, string> }): Promise<Service>;
/** A primary and a streaming replica of it. */
export interface PostgresPair {
  /** Names both hosts. */
  readonly url: string;
  readonly primary: Service;
  readonly replica: Service;
  /** Makes the replica the primary. */
  promote(): Promise<void>;
  stop(): Promise<void>;
}
/** `synchronous`: a commit waits for the replica. */
export function startPostgresPair(options?: { synchronous?: boolean }): Promise<PostgresPair>;
/** A port on 127.0.0.1 that nobody listens on right now. */
export function freePort(): Promise<number>;
export function startNginx(options: { upstreams: string[]; failover?: boolean }): Promise<Service>;
/** nginx and HAProxy as `examples/nginx.conf` and `examples/haproxy.cfg` configure them, before three instances (`host:port`). */
export function startDocumentedNginx(options: { upstreams: string[] }): Promise<Service>;
export function startHaproxy(options: { upstreams: string[] }): Promise<Service>;
/** Prometheus, which scrapes `target` (`host:port`). */
export function startPrometheus(options: { target: string }): Promise<Service>;
/** PgBouncer in transaction mode before a PostgreSQL. */
export function startPgBouncer(options: { postgres: string }): Promise<Service>;

export interface Services {
  readonly urls: { readonly redis: string; readonly postgres: string };
  /** `VALISE_TEST_REDIS` and `VALISE_TEST_POSTGRES`, for a child process. */
  readonly env: Record<string, string>;
  stop(): Promise<void>;
}

/** The servers that the environment names, else new ones. */
export function startServices(kinds?: ServiceKind[]): Promise<Services>;

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

export function startRedis(options?: { cluster?: boolean; args?: string[] }): Promise<Service>;
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
}): Promise<RedisFleet>;
export function startRedisSentinel(options?: { replicas?: number }): Promise<RedisFleet>;
export function startPostgres(options?: { settings?: Record<string, string> }): Promise<Service>;
export function startNginx(options: { upstreams: string[]; failover?: boolean }): Promise<Service>;

export interface Services {
  readonly urls: { readonly redis: string; readonly postgres: string };
  /** `VALISE_TEST_REDIS` and `VALISE_TEST_POSTGRES`, for a child process. */
  readonly env: Record<string, string>;
  stop(): Promise<void>;
}

/** The servers that the environment names, else new ones. */
export function startServices(kinds?: ServiceKind[]): Promise<Services>;

// What the examples use of Deno and Bun, whose own types do not go along with Node's.
declare const Deno: {
  serve(
    options: { port: number; hostname: string },
    handler: (request: Request) => Promise<Response>,
  ): unknown;
};
declare const Bun: {
  serve(options: {
    port: number;
    hostname: string;
    idleTimeout: number;
    fetch(request: Request): Promise<Response>;
  }): unknown;
};

/** What the example uses of Workers. */
interface DurableObjectNamespace<T> {
  getByName(name: string): T;
}
declare module 'cloudflare:workers' {
  interface Storage {
    get<T>(key: string): Promise<T | undefined>;
    put<T>(key: string, value: T): Promise<void>;
    delete(key: string): Promise<boolean>;
    list<T>(options: { prefix: string; limit: number; startAfter?: string }): Promise<Map<string, T>>;
  }
  export class DurableObject {
    protected readonly ctx: { readonly storage: Storage };
  }
  export const env: Record<string, unknown>;
}

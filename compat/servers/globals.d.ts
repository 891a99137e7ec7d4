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

declare module 'cloudflare:workers' {
  /** The bindings of the example, which `wrangler types` would declare. */
  export const env: { readonly STORE: import('mcp-valise/store/durable-object').DurableObjectBinding };
}

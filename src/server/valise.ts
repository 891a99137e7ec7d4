import type { TransportLike } from '../link/transport.ts';
import { attach } from './attach.ts';
import type { ServerPart } from './part.ts';
import { type AuthInfo, type Principal, principalOf } from './principal.ts';

/** A server of either SDK major: `McpServer` or `Server`. */
export interface ServerLike {
  // biome-ignore lint/suspicious/noExplicitAny: the majors' transport types differ, and only an open parameter accepts both
  connect(transport: any): Promise<void>;
}

/** Settings of {@link createValise}. */
export interface ServerValiseOptions {
  /** The name of this server: seals made for it open nowhere else. All instances of one server share it. */
  readonly name: string;
  /** Who asks, where the SDKs' `authInfo` does not say it as `clientId`, `extra.iss` and `extra.sub`. */
  readonly principal?: (authInfo: AuthInfo | undefined, extra: unknown) => Principal | undefined;
}

/** What {@link createValise} makes. */
export interface ServerValise {
  /** Installs Valise on a server, before it connects. The same Valise serves any number of servers and connections. */
  install<S extends ServerLike>(server: S): S;
}

/** The server's side of Valise. */
export function createValise(options: ServerValiseOptions): ServerValise {
  const parts: ServerPart[] = [];
  const attachment = { owner: {}, parts, principalOf: options.principal ?? principalOf };
  return {
    install(server) {
      const connect = server.connect.bind(server);
      server.connect = async (transport: TransportLike) => {
        attach(transport, attachment);
        await connect(transport);
      };
      return server;
    },
  };
}

import { withoutHandles } from '../../wire/handle.ts';
import type { Meta } from '../../wire/index.ts';
import { withoutState } from '../../wire/state.ts';
import { hasByteEdge } from '../connection/http.ts';
import type { ClientMiddleware, Connection } from '../connection.ts';
import { type Identity, type IdentityOptions, identify, isIdentity, type NoIdentity } from '../identity.ts';
import type { ClientPart } from '../part.ts';
import type { ClientJar } from './jar.ts';
import type { JarView } from './view.ts';

/** The jar as part of a connection. */
export interface JarPart extends ClientPart {
  /**
   * Sends the jar's entries with each call, and moves the state in each result into the jar, because hosts show results to
   * models.
   */
  readonly middleware: ClientMiddleware;
  /**
   * Binds the session-scope state of a connection to a session that outlives the connection. State stored under `key` is
   * restored, and new state is stored under it. Without a key, the state ends with the connection again.
   */
  bindSession(connection: Connection, key: string | undefined): Promise<void>;
  /** Deletes the state of a session that is over. Without a key, this is the connection's bound or own session. */
  endSession(connection: Connection, key?: string): Promise<void>;
}

/** How much of a tool's name is kept with what the tool sets, in characters. */
const MAX_NAME = 128;

/** Creates the jar's part. Its middleware is the innermost, because the others determine the session of a call. */
export function jarPart(jar: ClientJar, options: IdentityOptions): JarPart {
  const views = new WeakMap<Connection, JarView | NoIdentity>();
  let warned = false;

  const viewOf = (connection: Connection): JarView | NoIdentity => {
    const { target, account, link } = connection;
    const known = views.get(connection);
    if (known && ('refused' in known || known.account === account.name)) return known;
    const identity = known?.identity ?? identify(target, options);
    const facts = { account: account.name, exact: hasByteEdge(link.transport) };
    const view = isIdentity(identity) ? jar.view(identity, facts) : identity;
    if (known && !('refused' in view)) jar.move(known, view);
    views.set(connection, view);
    return view;
  };

  const warn = ({ name, local }: Identity): void => {
    if (!local || warned) return;
    warned = true;
    jar.events.emit('warning', {
      code: 'local-state',
      what: `State is kept for ${name}, which is no registered domain, because allowLocal is on.`,
      next: 'Use allowLocal for development only: another program on this machine may take over the name.',
    });
  };

  return {
    announce(connection) {
      // A client that may not keep state must not announce it. The server then keeps the state itself.
      return { state: !('refused' in viewOf(connection)) };
    },

    async opening(connection) {
      const view = viewOf(connection);
      if ('refused' in view) return;
      warn(view.identity);
      await jar.open(view);
    },

    async middleware(call, next) {
      // State in another major version is neither sent nor read. Stored entries stay for a server that supports this one.
      if (call.connection.server.families.unsupported?.state !== undefined) {
        const response = await next();
        return 'result' in response ? { ...response, result: withoutState(response.result) } : response;
      }
      const view = viewOf(call.connection);
      if ('refused' in view) {
        const response = await next();
        if ('result' in response) jar.refuse(response.result._meta, view);
        return response;
      }
      view.transport = call.connection.link.transport;
      if (call.method !== 'initialize') jar.followTransport(view);
      let session = call.session === undefined ? view.session : jar.storedSession(view, call.session);
      await jar.ready(view, session);
      const fragment = view.pick(call.request, call.spelling.state, session);
      call.addMeta('jar', view.identity.passing ? copy(fragment) : fragment);
      const { epoch } = jar;
      const answer = await next();
      if (!('result' in answer)) return answer;
      // The client carries the state, so that the host's model need not pass a handle.
      const response = call.method === 'tools/list' ? withoutHandles(answer) : answer;
      if (call.method === 'initialize') {
        jar.beginSession(view);
        view.transportSession = view.transport.sessionId;
        ({ session } = view);
      }
      const meta = response.result._meta;
      if (meta === undefined) return response;
      const { method, params } = call.request;
      const named = params?.['name'] ?? params?.['uri'];
      const by = typeof named === 'string' ? `${method} ${named.slice(0, MAX_NAME)}` : method;
      const stored = jar.receive(meta, { view, session, epoch, by, texts: call.cameWith?.exact });
      const result = withoutState(response.result);
      await stored;
      return result === response.result ? response : { ...response, result };
    },

    closed(connection) {
      const view = views.get(connection);
      if (view && !('refused' in view)) jar.leave(view);
    },

    async bindSession(connection, key) {
      const view = viewOf(connection);
      if ('refused' in view) return;
      view.transport = connection.link.transport;
      jar.followTransport(view);
      await jar.bindSession(view, key);
    },

    async endSession(connection, key) {
      const view = viewOf(connection);
      if (!('refused' in view)) await jar.endSession(view, key);
      else if (key !== undefined) await endStored(jar, connection, key, options);
    },
  };
}

/** Ends a session that no connection uses. It may date from a time when `allowLocal` was on. */
async function endStored(
  jar: ClientJar,
  { target, account }: Connection,
  key: string,
  options: IdentityOptions,
): Promise<void> {
  const identity = identify(target, { ...options, allowLocal: true });
  if (!isIdentity(identity)) return;
  const view = jar.view(identity, { account: account.name, exact: false });
  await jar.endSession(view, key);
  jar.leave(view);
}

/** Copies the values for a peer in this process. */
function copy(fragment: Meta | undefined): Meta | undefined {
  return fragment && (JSON.parse(JSON.stringify(fragment)) as Meta);
}

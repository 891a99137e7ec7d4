import { withoutHandles } from '../../wire/handle.ts';
import type { Meta } from '../../wire/index.ts';
import { carriesState, withoutState } from '../../wire/jar.ts';
import { hasByteEdge } from '../connection/http.ts';
import type { ClientMiddleware, ClientPart, Connection } from '../connection.ts';
import {
  type Identity,
  type IdentityOptions,
  identify,
  isIdentity,
  type NoIdentity,
} from '../identity/identity.ts';
import { fingerprint, type Target, targetKey } from '../identity/target.ts';
import type { JarView } from './entries.ts';
import type { ClientJar } from './jar.ts';

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

/** How much of a tool's name is stored with what the tool sets, in characters. */
const MAX_NAME = 128;

/** Creates the jar's part. Its middleware is the innermost, because the others determine the session of a call. */
export function jarPart(jar: ClientJar, options: IdentityOptions): JarPart {
  const views = new WeakMap<Connection, JarView | NoIdentity>();
  let warned = false;

  const viewOf = (connection: Connection): JarView | NoIdentity => {
    const { target, account, transport } = connection;
    const known = views.get(connection);
    if (known && ('refused' in known || known.account === account.name)) return known;
    const identity = known?.identity ?? identify(target, options);
    const facts = { account: account.name, exact: hasByteEdge(transport) };
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
      what: `State is stored for ${name}, which is not a registered domain, because allowLocal is on.`,
      next: 'Use allowLocal for development only: another program on this machine may take over the name.',
    });
  };

  return {
    announce(connection) {
      // If the client does not announce the jar, the server stores the state itself.
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
      const { transport } = call.connection;
      view.transport = transport;
      if (transport.sessionId !== view.transportSession && call.method !== 'initialize')
        jar.followTransport(view);
      let session = call.session === undefined ? view.session : jar.storedSession(view, call.session);
      const reading = jar.ready(view, session);
      if (reading) await reading;
      const fragment = view.pick(call.request, call.spelling.state, session);
      call.addMeta('jar', view.identity.passing ? copy(fragment) : fragment);
      const { epoch } = jar;
      const answer = await next();
      if (!('result' in answer)) return answer;
      // The client carries the state, so that the host's model need not pass a handle.
      const response = call.method === 'tools/list' ? withoutHandles(answer) : answer;
      if (call.method === 'initialize') {
        jar.beginSession(view);
        view.transportSession = transport.sessionId;
        ({ session } = view);
      }
      const meta = response.result._meta;
      if (!carriesState(meta)) return response;
      const { method, params } = call.request;
      const named = params?.['name'] ?? params?.['uri'];
      const by = typeof named === 'string' ? `${method} ${named.slice(0, MAX_NAME)}` : method;
      const version = call.connection.server.families.versions?.state;
      const stored = jar.receive(meta, { view, session, epoch, by, version, texts: call.cameWith?.exact });
      const result = withoutState(response.result);
      await stored;
      return { ...response, result };
    },

    closed(connection) {
      const view = views.get(connection);
      if (view && !('refused' in view)) jar.leave(view);
    },

    async bindSession(connection, key) {
      const view = viewOf(connection);
      if ('refused' in view) return;
      view.transport = connection.transport;
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

/** Binds session-scope state to the lifetime of the transport's session, across processes. */
export async function followTransport(
  jar: JarPart,
  connection: Connection,
  sessionId: string | undefined,
): Promise<void> {
  if (sessionId !== undefined) await jar.bindSession(connection, transportSessionKey(sessionId));
}

/** Ends the state of a transport session that a connection does not resume. */
export async function leaveTransport(
  jar: JarPart,
  connection: Connection,
  sessionId: string | undefined,
): Promise<void> {
  if (sessionId !== undefined) await jar.endSession(connection, transportSessionKey(sessionId));
}

/**
 * Ends the state of all sessions with a target after the user signed out: the transport's, that of the target, and data-layer
 * sessions, and of accounts that cannot be signed in to again. Returns false if there was none.
 */
export async function endTransport(
  jar: ClientJar,
  url: URL,
  { sessionId, sessions, accounts }: SignedOut,
  options: IdentityOptions,
): Promise<boolean> {
  const target: Target = { kind: 'http', url };
  const identity = identify(target, { ...options, allowLocal: true });
  const own = sessionId === undefined ? [] : [transportSessionKey(sessionId)];
  if (!isIdentity(identity)) return false;
  return jar.signOut(identity.name, [targetSessionKey(target), ...own, ...sessions], accounts);
}

/** The stored sessions and accounts of a user who has signed out. */
export interface SignedOut {
  /** The id of the transport's session. */
  readonly sessionId: string | undefined;
  /** The ids of stored sessions. */
  readonly sessions: readonly string[];
  /** Accounts that no later sign-in can have. */
  readonly accounts: readonly string[];
}

/**
 * Stores session-scope state until it is cleared, if there is no transport session that limits its lifetime. There is then
 * one session with the target, like curl with its cookie jar.
 */
export async function followTarget(jar: JarPart, connection: Connection): Promise<void> {
  const { target, transport } = connection;
  if (transport.sessionId === undefined && target.kind !== 'unknown')
    await jar.bindSession(connection, targetSessionKey(target));
}

function transportSessionKey(sessionId: string): string {
  return `http:${fingerprint(sessionId)}`;
}

function targetSessionKey(target: Target): string {
  return `kept:${fingerprint(targetKey(target))}`;
}

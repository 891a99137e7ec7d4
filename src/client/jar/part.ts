import type { Meta, Response } from '../../wire/index.ts';
import { withoutState } from '../../wire/state.ts';
import type { Call } from '../call.ts';
import { hasByteEdge } from '../connection/http.ts';
import type { ClientMiddleware, Connection } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import { type Identity, type IdentityOptions, identify, isIdentity, type NoIdentity } from '../identity.ts';
import type { ClientPart } from '../part.ts';
import type { Origin } from './absorb.ts';
import type { Seat } from './seat.ts';
import type { Shelf } from './shelf.ts';

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

/** Creates the jar's part. Its middleware is the innermost, because the others determine the session of a call. */
export function jarPart(
  shelf: Shelf,
  { events, ...options }: IdentityOptions & { readonly events: ClientEventSource },
): JarPart {
  const seats = new WeakMap<Connection, Seat | NoIdentity>();
  let warned = false;

  const seatOf = (connection: Connection): Seat | NoIdentity => {
    const { target, account, link } = connection;
    const known = seats.get(connection);
    if (known && ('refused' in known || known.account === account.name)) return known;
    const identity = known?.identity ?? identify(target, options);
    const facts = { account: account.name, exact: hasByteEdge(link.transport) };
    const seat = isIdentity(identity) ? shelf.seat(identity, facts) : identity;
    if (known && !('refused' in seat)) shelf.move(known, seat);
    seats.set(connection, seat);
    return seat;
  };

  const warn = ({ name, local }: Identity): void => {
    if (!local || warned) return;
    warned = true;
    events.emit('warning', {
      code: 'local-state',
      what: `State is kept for ${name}, which is no registered domain, because allowLocal is on.`,
      next: 'Use allowLocal for development only: another program on this machine may take over the name.',
    });
  };

  const take = async (call: Call, origin: Origin, response: Response): Promise<Response> => {
    const { seat, session } = origin;
    if (!('result' in response)) return response;
    const begins = call.method === 'initialize';
    if (begins) {
      shelf.beginSession(seat);
      seat.transportSession = call.connection.link.transport.sessionId;
    }
    const meta = response.result._meta;
    if (meta === undefined) return response;
    const stored = shelf.take(meta, { ...origin, session: begins ? seat.session : session });
    const result = withoutState(response.result);
    await stored;
    return result === response.result ? response : { ...response, result };
  };

  return {
    announce(connection) {
      // A client that may not keep state must not announce it. The server then keeps the state itself.
      return { state: !('refused' in seatOf(connection)) };
    },

    async opening(connection) {
      const seat = seatOf(connection);
      if ('refused' in seat) return;
      warn(seat.identity);
      await shelf.open(seat);
    },

    async middleware(call, next) {
      const seat = seatOf(call.connection);
      if ('refused' in seat) {
        const response = await next();
        if ('result' in response) shelf.refuse(response.result._meta, seat);
        return response;
      }
      seat.transport = call.connection.link.transport;
      if (call.method !== 'initialize') shelf.follow(seat);
      const session = call.session === undefined ? seat.session : shelf.keptSession(seat, call.session);
      const reading = shelf.ready(seat, session);
      if (reading) await reading;
      const { state } = call.spelling;
      const fragment =
        call.method === 'initialize'
          ? seat.pickServer(call.request, state)
          : seat.pick(call.request, state, session);
      call.addMeta('jar', seat.identity.passing ? copy(fragment) : fragment);
      const { epoch } = shelf;
      const response = await next();
      return take(call, { seat, session, epoch, texts: call.cameWith?.exact }, response);
    },

    closed(connection) {
      const seat = seats.get(connection);
      if (seat && !('refused' in seat)) shelf.leave(seat);
    },

    async bindSession(connection, key) {
      const seat = seatOf(connection);
      if ('refused' in seat) return;
      seat.transport = connection.link.transport;
      shelf.follow(seat);
      await shelf.bindSession(seat, key);
    },

    async endSession(connection, key) {
      const seat = seatOf(connection);
      if (!('refused' in seat)) await shelf.endSession(seat, key);
      else if (key !== undefined) await endKept(shelf, connection, key, options);
    },
  };
}

/** Ends a session that no connection uses. It may date from a time when `allowLocal` was on. */
async function endKept(
  shelf: Shelf,
  { target, account }: Connection,
  key: string,
  options: IdentityOptions,
): Promise<void> {
  const identity = identify(target, { ...options, allowLocal: true });
  if (!isIdentity(identity)) return;
  const seat = shelf.seat(identity, { account: account.name, exact: false });
  await shelf.endSession(seat, key);
  shelf.leave(seat);
}

/** Copies the values for a peer in this process. */
function copy(fragment: Meta | undefined): Meta | undefined {
  return fragment && (JSON.parse(JSON.stringify(fragment)) as Meta);
}

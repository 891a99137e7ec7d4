import { isObject } from '../json.ts';
import { isNotification, type Meta, type Notification, type Params, type Result } from './message.ts';
import { type Era, NAMES } from './names.ts';
import { isProblem, type Problem } from './problem.ts';
import { isSession, readSession, type SessionMeta, writeSession } from './session.ts';
import { isCursor } from './session-methods.ts';

/** What a listener asks for. Without a session it hears what belongs to none. */
export interface ListenRequest {
  readonly session?: SessionMeta;
  /** Return what has come and end, in place of a stream. */
  readonly poll?: boolean;
  /** Seconds that a poll may wait for the first notification. */
  readonly wait?: number;
  /** Go on after this position, as a notification or a poll told it. */
  readonly after?: string;
  /** Resources whose updates it wants; for peers that have no `resources/subscribe`. */
  readonly resources?: readonly string[];
}

/** Where a listener stands. */
export interface ListenPosition {
  readonly sessionId?: string;
  /** Position after this notification. */
  readonly cursor?: string;
  /** True where notifications were lost before this one, and nobody can bring them back. */
  readonly missed?: boolean;
}

/** What a poll returns. */
export interface Poll extends ListenPosition {
  readonly notifications: readonly Notification[];
}

const KEY = NAMES.modern.listen;
const MAX_WAIT = 3600;
const MAX_RESOURCES = 1000;
const MAX_NOTIFICATIONS = 10_000;

/** Params that open a listener. */
export function listenParams(
  era: Era,
  { session, poll, wait, after, resources }: ListenRequest = {},
): Params {
  const asked = {
    ...(poll ? { poll } : {}),
    ...(wait === undefined ? {} : { wait }),
    ...(after === undefined ? {} : { after }),
    ...(resources === undefined ? {} : { resources }),
  };
  const _meta: Meta = {
    ...(session && writeSession(era, session)),
    ...(Object.keys(asked).length > 0 ? { [NAMES[era].listen]: asked } : {}),
  };
  return Object.keys(_meta).length > 0 ? { _meta } : {};
}

/** Reads params that open a listener. */
export function readListenParams(params: unknown): ListenRequest | Problem {
  const meta = isObject(params) && isObject(params._meta) ? params._meta : {};
  const session = readSession(meta);
  if (session === null) return { problem: 'bad-value', where: 'params._meta' };
  if (isProblem(session)) return session;
  const asked = meta[KEY] ?? {};
  if (!isObject(asked)) return { problem: 'wrong-type', where: KEY };
  const { poll = false, wait, after, resources } = asked;
  if (typeof poll !== 'boolean') return { problem: 'bad-value', where: `${KEY}.poll` };
  if (wait !== undefined && !(typeof wait === 'number' && wait >= 0 && wait <= MAX_WAIT)) {
    return { problem: 'bad-value', where: `${KEY}.wait` };
  }
  if (after !== undefined && !isCursor(after)) return { problem: 'bad-value', where: `${KEY}.after` };
  if (resources !== undefined && !isResourceList(resources)) {
    return { problem: 'bad-value', where: `${KEY}.resources` };
  }
  return {
    ...(session ? { session } : {}),
    ...(poll ? { poll } : {}),
    ...(wait === undefined ? {} : { wait }),
    ...(after === undefined ? {} : { after }),
    ...(resources === undefined ? {} : { resources }),
  };
}

/** The first message of a stream: the listener is heard. */
export function listening(era: Era, position: ListenPosition = {}): Notification {
  return tagNotification(era, { jsonrpc: '2.0', method: NAMES[era].notification.listening }, position);
}

/** True for the first message of a stream, in either era. */
export function isListening(message: unknown): message is Notification {
  if (!isNotification(message)) return false;
  const { legacy, modern } = NAMES;
  return message.method === legacy.notification.listening || message.method === modern.notification.listening;
}

/** A notification for a listener: with the id of its session, never with the session's state. */
export function tagNotification(
  era: Era,
  notification: Notification,
  { sessionId, cursor, missed }: ListenPosition,
): Notification {
  const position = { ...(cursor === undefined ? {} : { cursor }), ...(missed ? { missed } : {}) };
  const tag: Meta = {
    ...(sessionId === undefined ? {} : writeSession(era, { sessionId })),
    ...(Object.keys(position).length > 0 ? { [NAMES[era].listen]: position } : {}),
  };
  if (Object.keys(tag).length === 0) return notification;
  const { params } = notification;
  return { ...notification, params: { ...params, _meta: { ...params?._meta, ...tag } } };
}

/** Reads which session a notification is for, and the position after it. */
export function readNotificationTag(notification: unknown): ListenPosition {
  const meta =
    isObject(notification) && isObject(notification.params) ? notification.params._meta : undefined;
  return isObject(meta) ? readPosition(meta) : {};
}

/** The result of a poll, without its `resultType`. */
export function pollResult(era: Era, { notifications, sessionId, cursor, missed }: Poll): Result {
  const { params } = listening(era, {
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(cursor === undefined ? {} : { cursor }),
    ...(missed ? { missed } : {}),
  });
  return { notifications, ...params };
}

/** Reads the result of a poll; entries that are no notifications are passed over. */
export function readPollResult(result: unknown): Poll | Problem {
  if (!isObject(result) || !Array.isArray(result.notifications)) {
    return { problem: 'wrong-type', where: 'result.notifications' };
  }
  if (result.notifications.length > MAX_NOTIFICATIONS) {
    return { problem: 'too-many', where: 'result.notifications' };
  }
  return {
    ...readPosition(isObject(result._meta) ? result._meta : {}),
    notifications: (result.notifications as unknown[]).filter(isNotification),
  };
}

function readPosition(meta: Meta): ListenPosition {
  const session = readSession(meta);
  const position = isObject(meta[KEY]) ? meta[KEY] : {};
  return {
    ...(isSession(session) ? { sessionId: session.sessionId } : {}),
    ...(isCursor(position.cursor) ? { cursor: position.cursor } : {}),
    ...(position.missed === true ? { missed: true } : {}),
  };
}

function isResourceList(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) && value.length <= MAX_RESOURCES && value.every((uri) => typeof uri === 'string')
  );
}

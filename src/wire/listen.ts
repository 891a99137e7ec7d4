import { isObject } from '../core/json.ts';
import { isNotification, type Meta, type Notification, type Params, type Result } from '../core/message.ts';
import { type Era, NAMES } from './names.ts';
import { isProblem, type Problem } from './problem.ts';
import { isSession, readSession, type SessionMeta, writeSession } from './session.ts';
import { isCursor } from './session-methods.ts';

/** The params of a listen request. Without a session, the listener receives the notifications that belong to no session. */
export interface ListenRequest {
  readonly session?: SessionMeta;
  /** Return the available notifications and end, instead of opening a stream. */
  readonly poll?: boolean;
  /** The number of seconds a poll may wait for the first notification. */
  readonly wait?: number;
  /** Continue after this position, taken from a notification or a poll. */
  readonly after?: string;
  /** The resources whose updates to receive, for peers without `resources/subscribe`. */
  readonly resources?: readonly string[];
}

/** The position of a listener. */
export interface ListenPosition {
  readonly sessionId?: string;
  /** The position after this notification. */
  readonly cursor?: string;
  /** Whether notifications before this one were lost and cannot be recovered. */
  readonly missed?: boolean;
}

/** The result of a poll. */
export interface Poll extends ListenPosition {
  readonly notifications: readonly Notification[];
}

const KEY = NAMES.modern.listen;
const MAX_WAIT = 3600;
const MAX_RESOURCES = 1000;
const MAX_NOTIFICATIONS = 10_000;

/** Returns the params that open a listener. */
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

/** Reads the params that open a listener. */
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

/** Returns the first message of a stream, which confirms that the server is listening. */
export function listening(era: Era, position: ListenPosition = {}): Notification {
  return tagNotification(era, { jsonrpc: '2.0', method: NAMES[era].notification.listening }, position);
}

/** Whether the message is the first message of a stream, in either era. */
export function isListening(message: unknown): message is Notification {
  if (!isNotification(message)) return false;
  const { legacy, modern } = NAMES;
  return message.method === legacy.notification.listening || message.method === modern.notification.listening;
}

/** Tags a notification for a listener with the id of its session, never with the state of the session. */
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

/** Reads the session of a notification and the position after it. */
export function readNotificationTag(notification: unknown): ListenPosition {
  const meta =
    isObject(notification) && isObject(notification.params) ? notification.params._meta : undefined;
  return isObject(meta) ? readPosition(meta) : {};
}

/** Returns the result of a poll, without its `resultType`. */
export function pollResult(era: Era, { notifications, sessionId, cursor, missed }: Poll): Result {
  const { params } = listening(era, {
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(cursor === undefined ? {} : { cursor }),
    ...(missed ? { missed } : {}),
  });
  return { notifications, ...params };
}

/** Reads the result of a poll. Entries that are not notifications are ignored. */
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

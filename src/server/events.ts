import { Events, type Listener, printWarnings } from '../core/events.ts';

/** The events of a server's Valise. They contain no secrets. */
export interface ServerEvents {
  /** Something that a client sent back was refused: a seal that does not open, a value that does not fit. */
  rejected: {
    readonly family: 'jar' | 'sessions' | 'flows' | 'idempotency';
    readonly what: string;
    readonly reason: string;
  };
  /**
   * A client sent a message that is larger than `maxBytes`: the body of an HTTP request, or a line on stdio.
   *
   * The server responded with an error and did not handle it.
   */
  'message-too-large': { readonly what: 'body' | 'line'; readonly maxBytes: number };
  /** A request was refused because the server is already handling `maxInFlight` of them. */
  overloaded: { readonly maxInFlight: number };
  /**
   * Something works, but not as well as it could; `next` says what to do about it.
   *
   * If there is no listener, it is printed with `process.emitWarning`.
   */
  warning: { readonly what: string; readonly next: string };
}

/** The event source of a server's Valise. */
export type ServerEventSource = Events<ServerEvents>;

/** Listeners given with the options. They also receive events from while a Valise is being created. */
export type ServerListeners = { readonly [Name in keyof ServerEvents]?: Listener<ServerEvents[Name]> };

/** The maximum number of different warnings of one kind. */
const MAX_PER_KIND = 100;

/** Creates an event source with its first listeners. */
export function serverEvents(listeners: ServerListeners = {}): ServerEventSource {
  const known = { rejected: true, warning: true, 'message-too-large': true, overloaded: true };
  const events = new Events<ServerEvents>(known, { warning: printWarnings() });
  for (const [name, listener] of Object.entries(listeners))
    if (listener !== undefined) events.on(name as keyof ServerEvents, listener as Listener<object>);
  return events;
}

/**
 * Creates a function that emits each warning once.
 *
 * The kind of a warning is the part of its id before the first space. Each kind has its own limit, so that warnings that a
 * client can cause in large numbers never silence those of another kind.
 */
export function warnOnceOn(
  events: ServerEventSource,
): (id: string, warning: ServerEvents['warning']) => void {
  const told = new Map<string, Set<string>>();
  return (id, warning) => {
    const kind = id.split(' ', 1)[0] as string;
    const ofKind = told.get(kind) ?? new Set();
    if (ofKind.size > MAX_PER_KIND || ofKind.has(id)) return;
    told.set(kind, ofKind.add(id));
    events.emit('warning', ofKind.size > MAX_PER_KIND ? noMore(kind) : warning);
  };
}

function noMore(kind: string): ServerEvents['warning'] {
  return {
    what: `There are more than ${MAX_PER_KIND} warnings of the kind "${kind}". Further ones are not told.`,
    next: 'Follow what the earlier ones say.',
  };
}

import { Events, type Listener, printWarnings } from '../events.ts';

/** What a server's Valise tells; nothing in it is secret. */
export interface ServerEvents {
  /** Something that a client sent back was not taken: a seal that does not open, a value that does not fit. */
  rejected: {
    readonly family: 'state' | 'sessions' | 'rounds';
    readonly what: string;
    readonly reason: string;
  };
  /**
   * A client sent a message that is larger than `maxBytes`: the body of an HTTP request, or a line on stdio. It was
   * answered with an error and not handled.
   */
  'message-too-large': { readonly what: 'body' | 'line'; readonly maxBytes: number };
  /** A request was refused because the server works on `maxInFlight` of them already. */
  overloaded: { readonly maxInFlight: number };
  /**
   * Something works, but not as well as it could; `next` says what to do about it. If nobody listens, it is printed with
   * `process.emitWarning`.
   */
  warning: { readonly what: string; readonly next: string };
}

/** Event source of a server's Valise. */
export type ServerEventSource = Events<ServerEvents>;

/** Listeners given with the options: they also hear what happens while a Valise is being made. */
export type ServerListeners = { readonly [Name in keyof ServerEvents]?: Listener<ServerEvents[Name]> };

/** How many different warnings of one kind are told. */
const MAX_PER_KIND = 100;

/** An event source with its first listeners. */
export function serverEvents(listeners: ServerListeners = {}): ServerEventSource {
  const known = { rejected: true, warning: true, 'message-too-large': true, overloaded: true };
  const events = new Events<ServerEvents>(known, { warning: printWarnings() });
  for (const [name, listener] of Object.entries(listeners))
    if (listener !== undefined) events.on(name as keyof ServerEvents, listener as Listener<object>);
  return events;
}

/**
 * Tells each warning once. A kind is what stands before the first space of an id. Each kind has its own limit, so that
 * warnings which a client can cause in numbers never silence those of another kind.
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

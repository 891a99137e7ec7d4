import { listening, type Notification, tagNotification } from '../../../wire/index.ts';
import type { Spelling } from '../../../wire/spelling.ts';
import { cursorOf, type Entry, endOf, type NotificationLog, readCursor, since } from './notification-log.ts';
import { resourceOf, type Signal } from './notifier.ts';
import type { Subscriptions } from './subscriptions.ts';

/** The recipients that a listener stands for. */
export interface Audience {
  /** The session, or '' for notifications that belong to none. */
  readonly scope: string;
  /** The owner who listens without a session, or undefined if nothing tells one owner from another. */
  readonly owner: string | undefined;
  /** The resources that were named when the listener opened. */
  readonly resources: readonly string[];
}

/** Selects what a listener may receive from its log. */
export type Wanted = <Each extends Pick<Entry, 'method' | 'params'>>(
  entries: readonly Each[],
) => Promise<readonly Each[]>;

/**
 * Returns the filter of a listener.
 *
 * Everything in a session's log is for its listeners. Listeners without a session share a log. There, a resource is announced
 * only to owners who subscribed to it, and nobody else learns that it exists.
 */
export function wantedBy({ scope, owner, resources }: Audience, subscriptions: Subscriptions): Wanted {
  const wants = async (uri: string): Promise<boolean> =>
    owner === undefined ? resources.includes(uri) : subscriptions.has(uri, owner);
  return async (entries) => {
    if (scope !== '') return entries;
    const uris = new Map<string, Promise<boolean>>();
    const wanted = await Promise.all(
      entries.map(({ method, params }) => {
        const uri = resourceOf(method, params);
        if (uri === undefined) return true;
        const asked = uris.get(uri) ?? wants(uri);
        uris.set(uri, asked);
        return asked;
      }),
    );
    return entries.filter((_, index) => wanted[index]);
  };
}

/** Options of a `Listener`. */
export interface ListenerOptions {
  /** The session, or '' for notifications that belong to none. */
  readonly scope: string;
  /** The spelling that the client used. */
  readonly spelling: Spelling['sessions'];
  /** Whether the client knows what a position is. */
  readonly positions: boolean;
  readonly log: NotificationLog;
  /** Selects what this listener may receive. */
  readonly wanted: Wanted;
  /** Sends to the client. Rejects if the client is gone. */
  readonly write: (notification: Notification) => Promise<void>;
  /** Called when the client does not read. Further notifications are read from the log later. */
  readonly behind: () => void;
  /** Called when the listener has ended, because the session did or because the client is gone. */
  readonly ended: (why: 'over' | 'lost') => void;
}

/** The maximum number of signals that wait for a client that is slow to read. */
export const MAX_WAITING = 100;

/** One stream of notifications to one client. Steps run in sequence: nothing overtakes, nothing comes twice. */
export class Listener {
  readonly #options: ListenerOptions;
  #cursor = '0';
  #turn: Promise<void> = Promise.resolve();
  #over = false;
  #waiting = 0;
  /** Whether signals were skipped since the log was last read. */
  #isBehind = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  /** Opens the stream: sends what came after a position first, or else starts from now. */
  async open(after: string | undefined): Promise<void> {
    await this.#step(async () => {
      const log = await this.#options.log.read(this.#options.scope);
      const { wanted } = this.#options;
      if (after === undefined) {
        this.#cursor = endOf(log);
        await this.#write(this.#listening(false));
        return;
      }
      const missed = since(log, after);
      const entries = await wanted(missed.entries);
      this.#cursor = before(entries, log?.gen) ?? missed.cursor;
      await this.#write(this.#listening(missed.missed));
      for (const entry of entries) await this.#deliver(entry, log?.gen ?? '');
      this.#cursor = missed.cursor;
    });
  }

  /** Handles a signal about a notification or about the end of the session. */
  signal(signal: Signal): void {
    // Signals must not pile up here for a client that does not read. Skipped ones are in the log.
    if (this.#waiting >= MAX_WAITING && !('end' in signal)) {
      if (!this.#isBehind) this.#options.behind();
      this.#isBehind = true;
      return;
    }
    this.#waiting++;
    const isLast = this.#waiting === MAX_WAITING;
    void this.#step(async () => {
      this.#waiting--;
      if ('end' in signal) {
        this.end('over');
        return;
      }
      const { gen, n } = readCursor(this.#cursor);
      if (isLast) {
        this.#isBehind = false;
        return this.#catchUp();
      }
      if (signal.gen === gen && signal.n <= n) return;
      const isNext = signal.n === n + 1 && (signal.gen === gen || gen === '');
      if (!isNext) return this.#catchUp();
      for (const wanted of await this.#options.wanted([signal]))
        await this.#deliver({ ...wanted, at: 0 }, signal.gen);
      this.#cursor = cursorOf(signal.gen, signal.n);
    });
  }

  /** Checks the log for notifications that no signal announced. */
  look(): void {
    void this.#step(() => this.#catchUp());
  }

  /** Sends a heartbeat, so that each side notices when the other is gone. */
  beat(): void {
    void this.#step(() => this.#write(this.#listening(false)));
  }

  end(why: 'over' | 'lost'): void {
    if (this.#over) return;
    this.#over = true;
    this.#options.ended(why);
  }

  async #catchUp(): Promise<void> {
    const log = await this.#options.log.read(this.#options.scope);
    const { entries: all, missed, cursor } = since(log, this.#cursor);
    const entries = await this.#options.wanted(all);
    if (missed && entries.length === 0) await this.#write(this.#listening(true, cursor));
    for (const [index, entry] of entries.entries())
      await this.#deliver(entry, log?.gen ?? '', missed && index === 0);
    this.#cursor = cursor;
  }

  async #deliver({ n, method, params }: Entry, gen: string, missed = false): Promise<void> {
    const cursor = cursorOf(gen, n);
    await this.#write(
      tagNotification(
        this.#options.spelling,
        { jsonrpc: '2.0', method, ...(params && { params }) },
        this.#position(cursor, missed),
      ),
    );
    this.#cursor = cursor;
  }

  #listening(missed: boolean, cursor = this.#cursor): Notification {
    return listening(this.#options.spelling, this.#position(cursor, missed));
  }

  #position(cursor: string, missed: boolean) {
    const { scope, positions } = this.#options;
    return {
      ...(scope !== '' && { sessionId: scope }),
      ...(positions && { cursor, ...(missed && { missed }) }),
    };
  }

  #step(step: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(async () => {
      if (!this.#over) await step();
    });
    this.#turn = turn.catch(() => this.end('lost'));
    return turn;
  }

  #write(notification: Notification): Promise<void> {
    return this.#options.write(notification);
  }
}

/** Returns the position before the first missed entry. */
function before([first]: readonly Entry[], gen = ''): string | undefined {
  return first && cursorOf(gen, first.n - 1);
}

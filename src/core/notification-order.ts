/** The maximum number of notifications that are held back at a time. Further ones are dropped. */
export const MAX_HELD = 1000;

interface Held<Notification> {
  readonly notification: Notification;
  /** The number of the last message that arrived before it. */
  readonly after: number;
}

/** Keeps notifications behind the messages that arrived before them and are still being processed. */
export class NotificationOrder<Notification> {
  readonly #deliver: (notification: Notification) => void;
  /** The messages that are being processed, with their numbers, in order of arrival. */
  readonly #processing: Map<object, number>;
  readonly #held: Held<Notification>[];
  #count: number;

  constructor(deliver: (notification: Notification) => void) {
    this.#deliver = deliver;
    this.#processing = new Map();
    this.#held = [];
    this.#count = 0;
  }

  /** Registers a message. Notifications that arrive before its {@link end} are held back. */
  begin(message: object): void {
    this.#processing.set(message, ++this.#count);
  }

  /** Delivers the notifications that waited only for this message and earlier ones. */
  end(message: object): void {
    if (!this.#processing.delete(message)) return;
    const isFree = ({ after }: Held<Notification>): boolean => {
      const [oldest] = this.#processing.values();
      return oldest === undefined || oldest > after;
    };
    while (this.#held[0] && isFree(this.#held[0])) {
      const first = this.#held.shift();
      if (first) this.#deliver(first.notification);
    }
  }

  /** Delivers a notification, now or once it is its turn. Returns false if too many are held back. */
  pass(notification: Notification): boolean {
    if (this.#processing.size === 0) this.#deliver(notification);
    else if (this.#held.length >= MAX_HELD) return false;
    else this.#held.push({ notification, after: this.#count });
    return true;
  }
}

import { type Announced, type Result, readAnnounced } from '../wire/index.ts';

/** What a server has said about itself, read from the raw messages: the SDKs' getters leave some of it out. */
export class ServerFacts {
  #introduction: Result | undefined;
  #families: Announced = readAnnounced(undefined);
  #lacksSessions = false;
  #hasUnannounced = false;

  /** The `initialize` or `server/discover` result as it came. */
  get introduction(): Result | undefined {
    return this.#introduction;
  }

  /** The families that the server announced. */
  get families(): Announced {
    return this.#families;
  }

  /** True where it is certain that the server has no sessions: it would ignore one that comes with a call. */
  get lacksSessions(): boolean {
    return this.#lacksSessions;
  }

  /**
   * Takes an introduction: from the server itself, a store, or the SDK that asked on another channel. Not `certain` where
   * it may be older than the server, or cut: what is missing there need not be missing now.
   */
  introduce(result: Result, certain = true): void {
    this.#introduction = result;
    this.#families = readAnnounced(result['capabilities']);
    this.#lacksSessions = certain && !this.#families.sessions && !this.#hasUnannounced;
  }

  /** The server has made a session: where it announces none, nothing follows from that any more. */
  showSessions(): void {
    if (this.#families.sessions) return;
    this.#hasUnannounced = true;
    this.#lacksSessions = false;
  }
}

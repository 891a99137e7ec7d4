import { type Announced, type Era, knowsExtensions, type Result, readAnnounced } from '../wire/index.ts';
import { type Spelling, spellingUsed } from '../wire/spelling.ts';

/** What a server has said about itself, read from the raw messages: the SDKs' getters leave some of it out. */
export class ServerFacts {
  #introduction: Result | undefined;
  #families: Announced = readAnnounced(undefined);
  #lacksSessions = false;
  #hasUnannounced = false;
  #used: Partial<Spelling> = {};
  #knowsUs = true;

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
    this.#knowsUs = knowsExtensions(result['capabilities']);
    this.#lacksSessions = certain && !this.#families.sessions && !this.#hasUnannounced;
  }

  /** Hears in which names the server writes, from the `_meta` of a result. */
  hear({ _meta }: Result): void {
    if (_meta === undefined) return;
    const { state, sessions } = spellingUsed(_meta);
    if (state !== undefined && state !== this.#used.state) this.#used = { ...this.#used, state };
    if (sessions !== undefined && sessions !== this.#used.sessions) this.#used = { ...this.#used, sessions };
  }

  /**
   * The names for requests to it: those that it uses itself, else those that it announced, else the era's. On 2026-07-28 a
   * server that introduced itself without our extensions can only know the drafts' names, if any.
   */
  spelling(era: Era): Spelling {
    const announced = era === 'modern' && !this.#knowsUs;
    return {
      state: this.#used.state ?? (announced ? 'legacy' : era),
      sessions: this.#used.sessions ?? (announced && !this.#lacksSessions ? 'legacy' : era),
    };
  }

  /** The server has made a session: where it announces none, nothing follows from that any more. */
  showSessions(): void {
    if (this.#families.sessions) return;
    this.#hasUnannounced = true;
    this.#lacksSessions = false;
  }
}

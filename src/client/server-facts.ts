import { type Announced, type Era, knowsExtensions, type Result, readAnnounced } from '../wire/index.ts';
import { type Spelling, spellingUsed } from '../wire/spelling.ts';

/** What a server has said about itself, read from the raw messages, because the SDKs' getters omit part of it. */
export class ServerFacts {
  #introduction: Result | undefined;
  #families: Announced = readAnnounced(undefined);
  #lacksSessions = false;
  #hasUnannounced = false;
  #used: Partial<Spelling> = {};
  #knowsUs = true;

  /** The `initialize` or `server/discover` result as received. */
  get introduction(): Result | undefined {
    return this.#introduction;
  }

  /** The families that the server announced. */
  get families(): Announced {
    return this.#families;
  }

  /** Whether the server certainly has no sessions, so that it would ignore one that comes with a call. */
  get lacksSessions(): boolean {
    return this.#lacksSessions;
  }

  /**
   * Applies an introduction from the server itself, from a store, or from the SDK that asked on another channel. It is not
   * `certain` if it may be outdated or incomplete: a capability that it lacks may exist now.
   */
  introduce(result: Result, certain = true): void {
    this.#introduction = result;
    this.#families = readAnnounced(result['capabilities']);
    this.#knowsUs = knowsExtensions(result['capabilities']);
    this.#lacksSessions = certain && !this.#families.sessions && !this.#hasUnannounced;
  }

  /** Learns the spelling that the server uses, from the `_meta` of a result. */
  hear({ _meta }: Result): void {
    if (_meta === undefined) return;
    const { state, sessions } = spellingUsed(_meta);
    if (state !== undefined && state !== this.#used.state) this.#used = { ...this.#used, state };
    if (sessions !== undefined && sessions !== this.#used.sessions) this.#used = { ...this.#used, sessions };
  }

  /**
   * Returns the spelling for requests to the server: the one it uses itself, else the one it announced, else the era's. On
   * 2026-07-28, a server that introduced itself without our extensions can only know the drafts' names, if any.
   */
  spelling(era: Era): Spelling {
    const announced = era === 'modern' && !this.#knowsUs;
    return {
      state: this.#used.state ?? (announced ? 'legacy' : era),
      sessions: this.#used.sessions ?? (announced && !this.#lacksSessions ? 'legacy' : era),
    };
  }

  /** Records that the server has created a session. If it announces none, that no longer means that it has none. */
  showSessions(): void {
    if (this.#families.sessions) return;
    this.#hasUnannounced = true;
    this.#lacksSessions = false;
  }
}

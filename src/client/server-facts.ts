import { type Announced, type Result, readAnnounced } from '../wire/index.ts';

/** What a server has said about itself, read from the raw messages: the SDKs' getters leave some of it out. */
export class ServerFacts {
  #introduction: Result | undefined;
  #families: Announced = readAnnounced(undefined);

  /** The `initialize` or `server/discover` result as it came. */
  get introduction(): Result | undefined {
    return this.#introduction;
  }

  /** The families that the server announced. */
  get families(): Announced {
    return this.#families;
  }

  /** Takes an introduction: from the server itself, a store, or the SDK that asked on another channel. */
  introduce(result: Result): void {
    this.#introduction = result;
    this.#families = readAnnounced(result['capabilities']);
  }
}

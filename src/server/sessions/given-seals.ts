import { Recent } from '../recent.ts';

const MOST = 4096;

interface Given {
  readonly seal: string;
  readonly subject: string | undefined;
}

/** The last seal that this process issued for each session. If it comes back unaltered, it need not be opened to be trusted. */
export class GivenSeals {
  readonly #given = new Recent<Given>(MOST);

  add(id: string, subject: string | undefined, seal: string): void {
    this.#given.set(id, { seal, subject });
  }

  /** Whether this seal is the last one issued for this session, and was issued to this subject. */
  has(id: string, subject: string | undefined, seal: string): boolean {
    const given = this.#given.get(id);
    return given !== undefined && given.subject === subject && given.seal === seal;
  }
}

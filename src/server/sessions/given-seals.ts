import { Recent } from '../recent.ts';

const MOST = 4096;

interface Given {
  readonly seal: string;
  readonly subject: string | undefined;
}

/** The last seal that this process gave out for each session: one that comes back unaltered need not be opened to be believed. */
export class GivenSeals {
  readonly #given = new Recent<Given>(MOST);

  add(id: string, subject: string | undefined, seal: string): void {
    this.#given.set(id, { seal, subject });
  }

  /** True where this seal is the last that was given for this session, and was given to this subject. */
  has(id: string, subject: string | undefined, seal: string): boolean {
    const given = this.#given.get(id);
    return given !== undefined && given.subject === subject && given.seal === seal;
  }
}

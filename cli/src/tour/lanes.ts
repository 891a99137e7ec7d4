import { cut } from '../output/output.ts';

const NARROWEST = 18;
const WIDEST = 26;

/** Draws messages between participants, with one lane for each, side by side. */
export class Lanes {
  readonly #names: readonly string[];
  readonly #width: number;

  constructor(names: readonly string[], columns: number) {
    this.#names = names;
    const fair = Math.floor((columns - 4) / Math.max(names.length, 1));
    this.#width = Math.min(Math.max(fair, NARROWEST), WIDEST);
  }

  /** Returns the names above the lanes. */
  heading(): string {
    return this.#names
      .map((name) => cut(name, this.#width - 1).padEnd(this.#width))
      .join('')
      .trimEnd();
  }

  /** Returns an arrow from one lane to another, with a label; it crosses the lanes in between. */
  arrow(from: string, to: string, word: string): string {
    const start = this.#at(from);
    const end = this.#at(to);
    const isRight = end > start;
    const [low, high] = isRight ? [start, end] : [end, start];
    const line = Array.from({ length: this.#at() }, (_, at): string =>
      this.#isLane(at) ? (at > low && at < high ? '┼' : '│') : at > low && at < high ? '─' : ' ',
    );
    line[start] = isRight ? '├' : '┤';
    line[isRight ? end - 1 : end + 1] = isRight ? '▶' : '◀';
    const label = ` ${cut(word, high - low - 6)} `;
    const first = isRight ? low + 2 : high - 1 - label.length;
    for (const [at, char] of [...label].entries()) line[first + at] = char;
    return line.join('').trimEnd();
  }

  /** Returns a line of text that belongs to the arrow above it. */
  beside(text: string): string {
    return `│   ${text}`;
  }

  #at(name?: string): number {
    const lane = name === undefined ? this.#names.length - 1 : this.#names.indexOf(name);
    const last = name === undefined ? 1 : 0;
    return Math.max(lane, 0) * this.#width + last;
  }

  #isLane(at: number): boolean {
    return at % this.#width === 0;
  }
}

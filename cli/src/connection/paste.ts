import { createInterface, type Interface } from 'node:readline';
import { CommandError } from '../errors.ts';
import { remark } from '../output/output.ts';

/** A sign-in without a browser on this machine: the user opens the page elsewhere and pastes the resulting address. */
export class PastedSignIn {
  #lines: Interface | undefined;

  /** Prints the page and reads addresses from stdin until one belongs to this sign-in. */
  async redirect(page: URL): Promise<URL> {
    remark(`Sign in here: ${page.href}`);
    remark(
      'Open it in any browser. The last page may not load: paste its whole address here, and press Enter.',
    );
    this.#lines ??= createInterface({ input: process.stdin });
    for await (const line of this.#lines) {
      if (line.trim() === '') continue;
      const problem = problemOf(line.trim(), page.searchParams);
      if (problem === undefined) return new URL(line.trim());
      remark(`valise: ${problem} Paste the whole address that the browser has come to.`);
    }
    throw new CommandError(
      'sign-in-not-pasted',
      'The input has ended before the address of a sign-in came.',
      {
        next: 'Run it on a terminal, or leave out --no-browser.',
      },
    );
  }

  /** Stops reading. */
  close(): void {
    this.#lines?.close();
    this.#lines = undefined;
  }
}

/** Returns what is wrong with a pasted address. Does not repeat it, because it may contain the code of another sign-in. */
function problemOf(text: string, asked: URLSearchParams): string | undefined {
  if (!URL.canParse(text)) return 'That is not an address.';
  const { origin, pathname, searchParams } = new URL(text);
  const back = new URL(asked.get('redirect_uri') ?? '');
  if (origin !== back.origin || pathname !== back.pathname)
    return `That does not begin with ${back.origin}${back.pathname}.`;
  return searchParams.get('state') === asked.get('state') ? undefined : 'That belongs to another sign-in.';
}

/** What a page's code block asks for; the word after the language says so: see CONTRIBUTING. */
export interface Block {
  readonly page: string;
  /** The line of the page that the code starts at. */
  readonly line: number;
  readonly language: string;
  /** The file that the code is written to, beside the other blocks of its page. */
  readonly file: string;
  readonly code: string;
  /** What runs this block instead: a later block's file, a test file, or a test file in compat/, which has the packages for it. */
  readonly by?: string;
  /** What the block must print. */
  output?: string;
}

const CODE: Readonly<Record<string, string>> = { ts: 'ts', js: 'js', sh: 'sh', json: 'json' };

/** Shown, not run. */
const PROSE = new Set(['mermaid', 'text', 'http', 'nginx', 'sql', 'diff']);

const FENCE = /^( *)(`{3,})(.*)$/;

/** The code blocks of a page, in order. Throws where a block does not say what it is. */
export function readBlocks(page: string, markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const [, indent = '', fence = '', info = ''] = FENCE.exec(lines[at] ?? '') ?? [];
    if (!fence) continue;
    const end = lines.findIndex((line, index) => index > at && line.trim() === fence);
    if (end === -1) throw new Error(`${page}:${at + 1}: this block has no end.`);
    const code = lines
      .slice(at + 1, end)
      .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
    add(blocks, page, at + 2, info.trim().split(/\s+/), `${code.join('\n')}\n`);
    at = end;
  }
  for (const block of blocks) checkProof(block, blocks);
  return blocks;
}

function add(blocks: Block[], page: string, line: number, words: readonly string[], code: string): void {
  const [language = '', ...rest] = words;
  const fail = (why: string): never => {
    throw new Error(`${page}:${line - 1}: ${why}`);
  };
  if (language === 'text' && rest[0] === 'output') {
    const before = blocks.at(-1) ?? fail('there is no block before this output.');
    before.output = code;
    return;
  }
  if (PROSE.has(language)) return;
  const extension = CODE[language] ?? fail(`a block must say what it is; "${language}" is not known here.`);
  const by = rest.find((word) => word.startsWith('by='))?.slice(3);
  const name = rest.find((word) => /^[\w./-]+\.\w+$/.test(word));
  const odd = rest.find((word) => word !== name && !word.startsWith('by='));
  if (odd !== undefined) fail(`"${odd}" is neither a file name nor by=….`);
  const file = name ?? `line-${line}.${extension}`;
  blocks.push({ page, line, language, file, code, ...(by === undefined ? {} : { by }) });
}

/** A block that is not run itself must be used by the one that it names. */
function checkProof({ page, line, file, by }: Block, blocks: readonly Block[]): void {
  if (by === undefined || /^(test|compat)\//.test(by)) return;
  const user = blocks.find((block) => block.file === by);
  const built = file.replace(/\.ts$/, '.js');
  if (!user?.code.includes(built)) throw new Error(`${page}:${line - 1}: ${by} does not use ${built}.`);
}

import { rmSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { readBlocks } from './blocks.ts';
import { runBlock } from './run.ts';
import { folderOf, stage, typeErrors } from './stage.ts';

const PAGE = 'the-runner-itself.md';
const page = (...parts: string[]) => readBlocks(PAGE, parts.join('\n'));
const fenced = (info: string, code: string) => `\`\`\`${info}\n${code}\n\`\`\``;

afterAll(() => rmSync(folderOf(PAGE), { recursive: true, force: true }));

describe('the reader of code blocks', () => {
  it('The reader finds each block with its line, language and file', () => {
    const [first, second] = page('# Page', '', fenced('ts server.ts', 'a();'), '', fenced('sh', 'ls'));
    expect(first).toEqual({ page: PAGE, line: 4, language: 'ts', file: 'server.ts', code: 'a();\n' });
    expect(second).toMatchObject({ line: 8, language: 'sh', file: 'line-8.sh' });
  });

  it('The reader accepts indented blocks, and longer fences around shorter ones', () => {
    expect(page('- item', '  ```ts', '  if (a) {', '    b();', '  }', '  ```')[0]?.code).toBe(
      'if (a) {\n  b();\n}\n',
    );
    expect(page('````text', '```ts', 'x', '```', '````')).toEqual([]);
  });

  it('The reader ignores pictures and wire examples', () => {
    expect(page(fenced('mermaid', 'graph LR'), fenced('http', 'GET /'), fenced('text', 'x'))).toEqual([]);
  });

  it('The reader refuses a block without a language, with invalid attributes or without an end', () => {
    expect(() => page(fenced('', 'x'))).toThrow(`${PAGE}:1:`);
    expect(() => page(fenced('typescript', 'x'))).toThrow('"typescript" is not known');
    expect(() => page(fenced('ts norun', 'x'))).toThrow('"norun"');
    expect(() => page('```ts', 'x')).toThrow('no end');
  });

  it('The reader accepts by=… only if that block uses the file', () => {
    const server = fenced('ts server.ts by=client.ts', 'x();');
    expect(() => page(server, fenced('ts client.ts', "spawn('server.js');"))).not.toThrow();
    expect(() => page(server, fenced('ts client.ts', 'y();'))).toThrow('does not use server.js');
    expect(() => page(server)).toThrow('does not use server.js');
  });
});

describe('the runner of code blocks', () => {
  it('The runner reports type errors with the line of the page', () => {
    const blocks = page(
      '# Page',
      fenced('ts', 'const a: number = 1;\nconst b: string = a;'),
      fenced('ts', 'export const c = 1;'),
    );
    stage(blocks);
    const errors = typeErrors(blocks);
    expect(errors.get(blocks[0]!)).toEqual([expect.stringMatching(new RegExp(`^${PAGE}:4: Type 'number'`))]);
    expect(errors.has(blocks[1]!)).toBe(false);
  });

  it('The runner runs TypeScript, JavaScript and shell, and captures output and exit code', async () => {
    const blocks = page(
      fenced('ts part.ts by=main.ts', 'export const answer: number = 42;'),
      fenced('ts main.ts', "import { answer } from './part.js';\nconsole.log(answer);"),
      fenced('text output', '42'),
      fenced('sh', 'echo "$HOME"; exit 3'),
      fenced('js', "throw new Error('no');"),
    );
    stage(blocks);
    const [, main, shell, thrown] = blocks;
    expect(await runBlock(main!)).toMatchObject({ code: 0, stdout: main!.output });
    expect(await runBlock(shell!)).toMatchObject({ code: 3, stdout: `${folderOf(PAGE)}/home\n` });
    expect(await runBlock(thrown!)).toMatchObject({ code: 1, stderr: expect.stringContaining('Error: no') });
  });

  it('The runner ends blocks that do not end, and processes that a block leaves running', async () => {
    const blocks = page(
      fenced('ts', 'setInterval(() => {}, 1000);'),
      fenced('sh', 'sleep 600 & echo left behind'),
    );
    stage(blocks);
    expect(await runBlock(blocks[0]!, 1)).toMatchObject({
      code: null,
      stderr: expect.stringContaining('still running'),
    });
    // The one left behind holds the pipes open: without its end there would be no outcome at all.
    expect(await runBlock(blocks[1]!, 20)).toEqual({ code: 0, stdout: 'left behind\n', stderr: '' });
  });
});

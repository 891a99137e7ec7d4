import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { root } from '../house/sources.ts';
import { type Block, readBlocks } from './blocks.ts';
import { runBlock } from './run.ts';
import { stage, typeErrors } from './stage.ts';

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'examples/README.md',
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' }).map((path) => `docs/${path}`),
].filter((path) => path.endsWith('.md') && existsSync(root + path));

const blocks = pages
  .flatMap((page) => readBlocks(page, readFileSync(root + page, 'utf8')))
  .filter(({ by }) => !by?.startsWith('compat/'));
let errors = new Map<Block, string[]>();

beforeAll(async () => {
  await build();
  stage(blocks);
  errors = typeErrors(blocks);
}, 120_000);

describe.each(pages.filter((page) => blocks.some((block) => block.page === page)))('code in %s', (page) => {
  const own = blocks.filter((block) => block.page === page);

  it.each(
    own.filter(({ language }) => language === 'ts').map((block) => [block.line, block.file, block] as const),
  )('The code in line %i: %s has the right types', (_line, _file, block) => {
    expect(errors.get(block) ?? []).toEqual([]);
  });

  it.each(own.filter(({ language }) => language === 'json').map((block) => [block.line, block] as const))(
    'The block in line %i is JSON',
    (_line, block) => {
      expect(() => JSON.parse(block.code)).not.toThrow();
    },
  );

  it.each(
    own.filter(({ by }) => by?.startsWith('test/')).map((block) => [block.line, block.by, block] as const),
  )('The block in line %i is proved by %s', (_line, by, block) => {
    const test = readFileSync(`${root}${by}`, 'utf8');
    // The test reads the page itself, or does what its lines do.
    if (test.includes(page)) return;
    for (const [, command = ''] of block.code.matchAll(/^(?:valise|npm|npx|node) (?:run )?(\S+)/gm))
      expect(test).toContain(command);
  });

  it.each(
    own
      .filter(({ language, by }) => language !== 'json' && by === undefined)
      .map((block) => [block.line, block.file, block] as const),
  )(
    'The code in line %i: %s runs',
    async (_line, _file, block) => {
      const { code, stdout, stderr } = await runBlock(block);
      expect(code, stderr).toBe(0);
      if (block.output !== undefined) expect(stdout).toBe(block.output);
    },
    90_000,
  );
});

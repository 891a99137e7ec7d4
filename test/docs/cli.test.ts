import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { EXIT } from '../../cli/src/output/exit.ts';
import { root } from '../house/sources.ts';

const page = readFileSync(`${root}docs/cli.md`, 'utf8');

describe('docs/cli.md', () => {
  it('docs/cli.md has a section for every command, and none for others', () => {
    const commands = readdirSync(`${root}cli/src/commands`).map((file) => file.replace('.ts', ''));
    const sections = [...page.matchAll(/^## valise (\S+)/gm)].map(([, name = '']) => name);
    expect(sections.sort()).toEqual(commands.sort());
  });

  it('docs/cli.md has every exit code', () => {
    const codes = [...page.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    expect(codes).toEqual(Object.values(EXIT));
  });
});

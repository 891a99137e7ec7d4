import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const room = new URL('../../src/store/', import.meta.url);
const page = readFileSync(new URL('../../docs/stores.md', import.meta.url), 'utf8');

it('The manual has exactly the codes that a store can fail with', () => {
  const sources = readdirSync(room, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.startsWith('contract'),
  );
  const used = sources.flatMap(
    (file) => readFileSync(new URL(file, room), 'utf8').match(/'store-[a-z-]+'/g) ?? [],
  );
  const told = page.match(/`store-[a-z-]+`/g) ?? [];
  const bare = (codes: string[]) => [...new Set(codes.map((code) => code.slice(1, -1)))].sort();
  expect(bare(told)).toEqual(bare(used));
});

import { fileURLToPath } from 'node:url';
import { it } from 'vitest';
import { runToEnd } from './start.ts';

it('the examples, and the tests here, have the right types', async () => {
  const here = fileURLToPath(new URL('.', import.meta.url));
  await runToEnd(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json'], here);
});

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

it("the tests here have the right types, with Cloudflare's own types of bindings", async () => {
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const args = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd }).catch(
    (error: { stdout: string }) => error,
  );
  expect(stdout).toBe('');
});

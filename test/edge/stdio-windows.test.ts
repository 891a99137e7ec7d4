import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { expect, it, onTestFinished } from 'vitest';

const ODD = fileURLToPath(new URL('../cli/odd-server.mjs', import.meta.url));

/** Replaces a property until the test ends. */
function replace(object: object, name: string, value: unknown): void {
  const before = Object.getOwnPropertyDescriptor(object, name);
  Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true });
  onTestFinished(() => {
    if (before) Object.defineProperty(object, name, before);
    else delete (object as Record<string, unknown>)[name];
  });
}

it.skipIf(process.platform === 'win32')(
  'On Windows, a command that is not an executable, such as npx, starts through the command interpreter',
  async () => {
    const path = await mkdtemp(join(tmpdir(), 'valise-windows-'));
    onTestFinished(() => rm(path, { recursive: true, force: true }));
    const interpreter = join(path, 'cmd.sh');
    const heard = join(path, 'heard');
    await writeFile(
      interpreter,
      `#!/bin/sh\nprintf '%s\\n' "$@" > '${heard}'\nexec '${process.execPath}' '${ODD}'\n`,
    );
    await chmod(interpreter, 0o755);
    replace(process, 'platform', 'win32');
    process.env['comspec'] = interpreter;
    onTestFinished(() => void delete process.env['comspec']);
    const { openValise } = await import('mcp-valise/client');
    const own = await openValise({ store: 'memory:' });
    onTestFinished(() => own.close());
    const client = new Client({ name: 'host', version: '1.0.0' });
    onTestFinished(() => client.close());
    await own.connect(client, { command: 'npx', args: ['-y', 'a server'], stderr: 'ignore' });
    expect(client.getServerVersion()).toMatchObject({ name: 'odd' });
    const [, , flag, line] = (await readFile(heard, 'utf8')).split('\n');
    expect(flag).toBe('/c');
    expect(line).toContain('npx');
  },
);

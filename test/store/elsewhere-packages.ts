import { execFile } from 'node:child_process';
import { cp, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from './places.ts';

const sources = fileURLToPath(new URL('../../src', import.meta.url));
const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

/** Calls a function of the sources where no package is installed; the error it fails with. */
export async function withoutPackages(
  file: string,
  name: string,
  argument: string,
): Promise<{ code?: string; message?: string }> {
  const { folder, remove } = temporaryFolder();
  try {
    await cp(sources, join(folder, 'src'), { recursive: true });
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    const program = `
      import(${JSON.stringify(pathToFileURL(join(folder, 'src', file)).href)})
        .then((module) => module[${JSON.stringify(name)}](${JSON.stringify(argument)}))
        .then(() => ({}), ({ code, message }) => ({ code, message }))
        .then((outcome) => console.log(JSON.stringify(outcome)));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', loader, '-e', program], {
      cwd: folder,
    });
    return JSON.parse(stdout) as { code?: string; message?: string };
  } finally {
    remove();
  }
}

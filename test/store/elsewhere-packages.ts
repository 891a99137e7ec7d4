import { execFile } from 'node:child_process';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from './places.ts';

const sources = fileURLToPath(new URL('../../src', import.meta.url));
const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

/** Calls a function of the sources where no package is installed, except for `packages`; the error it fails with. */
export async function withoutPackages(
  file: string,
  name: string,
  argument: unknown,
  packages: Readonly<Record<string, string>> = {},
): Promise<{ code?: string; message?: string }> {
  const { folder, remove } = temporaryFolder();
  try {
    await cp(sources, join(folder, 'src'), { recursive: true });
    // As the package is called, so that it can tell that it is not part of a bundle.
    const own = { name: 'mcp-valise', type: 'module', exports: { './package.json': './package.json' } };
    await writeFile(join(folder, 'package.json'), JSON.stringify(own));
    for (const [each, source] of Object.entries(packages)) {
      const place = join(folder, 'node_modules', each);
      await mkdir(place, { recursive: true });
      await writeFile(join(place, 'package.json'), JSON.stringify({ name: each, main: 'index.mjs' }));
      await writeFile(join(place, 'index.mjs'), source);
    }
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

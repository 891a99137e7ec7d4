import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Signs in as a person would, only without a browser: follows the sign-in page to its end. */
const BROWSER = `#!/usr/bin/env node
let at = process.argv[2];
let jar = new Map();
for (let hop = 0; hop < 20; hop++) {
  const headers = { cookie: [...jar].map(([name, value]) => name + '=' + value).join('; ') };
  const response = await fetch(at, { redirect: 'manual', headers });
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
    jar.set(name, value);
  }
  const next = response.headers.get('location');
  if (!next) break;
  at = new URL(next, at).href;
}
`;

/** Makes such a browser in a folder, for VALISE_BROWSER; its path. */
export async function browserIn(folder: string): Promise<string> {
  const path = join(folder, 'browser.mjs');
  await writeFile(path, BROWSER, { mode: 0o755 });
  return path;
}

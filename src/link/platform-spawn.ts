import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';

/** What both SDK majors start stdio servers from; each depends on cross-spawn. */
const SDK_CLIENTS = ['@modelcontextprotocol/client', '@modelcontextprotocol/sdk/client/index.js'];

/**
 * Returns the function that starts a process. Windows needs cross-spawn for commands such as `npx`, which are scripts;
 * it comes from the installed SDK, so that the library needs no copy of its own. Without it, executables still start.
 */
export function platformSpawn(): typeof spawn {
  if (process.platform !== 'win32') return spawn;
  for (const sdk of SDK_CLIENTS) {
    try {
      const client = createRequire(import.meta.url).resolve(sdk);
      return createRequire(client)('cross-spawn') as typeof spawn;
    } catch {
      // Not installed, or a bundle in which packages have no place.
    }
  }
  return spawn;
}

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';

/** The modules of both SDK majors that start stdio servers. Each depends on cross-spawn. */
const SDK_CLIENTS = ['@modelcontextprotocol/client', '@modelcontextprotocol/sdk/client/index.js'];

/**
 * Returns the function that starts a process. Windows needs cross-spawn for commands such as `npx`, which are scripts.
 * It is loaded from the installed SDK, so that the library needs no copy. Without it, executables still start.
 */
export function platformSpawn(): typeof spawn {
  if (process.platform !== 'win32') return spawn;
  for (const sdk of SDK_CLIENTS) {
    try {
      const client = createRequire(import.meta.url).resolve(sdk);
      return createRequire(client)('cross-spawn') as typeof spawn;
    } catch {
      // The SDK is not installed, or this is a bundle in which packages cannot be resolved.
    }
  }
  return spawn;
}

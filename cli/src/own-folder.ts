import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder of a command's own. */
export interface OwnFolder {
  readonly path: string;
  remove(): Promise<void>;
}

/** Makes a folder that goes with the process at the latest, also where that ends since nobody reads what it prints. */
export async function ownFolder(name: string): Promise<OwnFolder> {
  const path = await mkdtemp(join(tmpdir(), `valise-${name}-`));
  const removeNow = (): void => {
    try {
      rmSync(path, { recursive: true, force: true, maxRetries: 3 });
    } catch {
      // The process is about to end, for another reason.
    }
  };
  process.once('exit', removeNow);
  return {
    path,
    async remove() {
      process.off('exit', removeNow);
      await rm(path, { recursive: true, force: true });
    },
  };
}

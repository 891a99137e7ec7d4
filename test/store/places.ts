import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What Node needs to run the sources as they are. */
export const tsx = ['--import', 'tsx', '--disable-warning=ExperimentalWarning'];

/** The long form of what takes time. */
export const soak = process.env.VALISE_SOAK === '1';

/** A folder of its own, and how to be rid of it. */
export function temporaryFolder(): { folder: string; remove(): void } {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'valise-store-')));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

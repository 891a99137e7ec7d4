import { dirname } from 'node:path';
import { ValiseError } from '../../errors.ts';
import { type FileLock, fileLock } from '../../store/file/lock.ts';
import { withTimeout } from '../../store/kit/timeout.ts';
import { fullPath, privateFile, statOf } from '../../store/private-file.ts';

const LOCK = '~/.valise/keychain.lock';

/** How long a response may take: the user may have to type a password. */
const ANSWER_SECONDS = 60;
/** How long to wait for other processes. */
const TURN_SECONDS = 90;

/** Options for an operation on the keychain. */
export interface InLineOptions {
  /** The maximum duration in seconds. */
  readonly patience?: number;
  /**
   * Whether the operation is read-only. It then does not create a folder for the lock, since there may not even be a
   * keychain.
   */
  readonly looks?: boolean;
  /** Whether the operation must not run in two processes at once, on any system: keychains have no compare-and-set. */
  readonly exclusive?: boolean;
}

let turn: Promise<unknown> = Promise.resolve();
let hangs = false;
let lock: FileLock | undefined;

/**
 * Runs one keychain operation at a time. On Linux this also holds across processes: gnome-keyring fails an operation on
 * an item that another program creates or removes at the same moment. An operation that hangs occupies one of the few
 * threads that Node also uses for files, DNS and ciphers, so no other starts next to it.
 */
export function inLine<Result>(
  work: () => Promise<Result>,
  { patience = ANSWER_SECONDS, looks = false, exclusive = false }: InLineOptions = {},
): Promise<Result> {
  const done = turn.then(() => alone(() => inTime(work, patience), looks, exclusive));
  turn = done.catch(() => {});
  return done;
}

async function alone<Result>(
  work: () => Promise<Result>,
  looks: boolean,
  exclusive: boolean,
): Promise<Result> {
  if (hangs) throw new Error('it has not answered what it was asked before');
  const held = (exclusive || process.platform === 'linux') && (await takeLock(looks));
  try {
    return await work();
  } finally {
    if (held) lock?.release();
  }
}

/**
 * Acquires the lock. An unwritable home folder is no reason to reject access to the keychain, so the operation then
 * runs without the lock.
 */
async function takeLock(looks: boolean): Promise<boolean> {
  try {
    // If nobody has ever changed anything, there is nobody to wait for.
    if (!lock && looks && !statOf(dirname(fullPath(LOCK)))) return false;
    lock ??= fileLock(privateFile(LOCK), { patience: TURN_SECONDS });
    await lock.acquire();
    return true;
  } catch (error) {
    if (error instanceof ValiseError && error.code === 'store-busy') throw error;
    return false;
  }
}

function inTime<Result>(work: () => Promise<Result>, seconds: number): Promise<Result> {
  hangs = true;
  const answer = (async () => work())().finally(() => {
    hangs = false;
  });
  return withTimeout(answer, seconds * 1000, () => {
    throw new Error(`it gave no answer within ${seconds} s`);
  });
}

import { dirname } from 'node:path';
import { ValiseError } from '../../errors.ts';
import { type FileLock, fileLock } from '../file/lock.ts';
import { withTimeout } from '../kit/timeout.ts';
import { fullPath, privateFile, statOf } from '../private-file.ts';

const LOCK = '~/.valise/keychain.lock';

/** How long an answer may take: somebody may have to type a password. */
const ANSWER_SECONDS = 60;
/** How long others may be before us. */
const TURN_SECONDS = 90;

/** What is done with the keychain. */
export interface InLineOptions {
  /** How long it may take, in seconds. */
  readonly patience?: number;
  /** True for what changes nothing: it makes no folder for the lock, where there may not even be a keychain. */
  readonly looks?: boolean;
}

let turn: Promise<unknown> = Promise.resolve();
let hangs = false;
let lock: FileLock | undefined;

/**
 * Does one thing at a time with the keychain. On Linux also among all processes: gnome-keyring fails what one program
 * does with an item that another makes or removes in the same moment. Work that hangs holds one of the few threads that
 * Node has for files, names and ciphers too, so none is begun beside it.
 */
export function inLine<Result>(
  work: () => Promise<Result>,
  { patience = ANSWER_SECONDS, looks = false }: InLineOptions = {},
): Promise<Result> {
  const done = turn.then(() => alone(() => inTime(work, patience), looks));
  turn = done.catch(() => {});
  return done;
}

async function alone<Result>(work: () => Promise<Result>, looks: boolean): Promise<Result> {
  if (hangs) throw new Error('it has not answered what it was asked before');
  const held = process.platform === 'linux' && (await takeLock(looks));
  try {
    return await work();
  } finally {
    if (held) lock?.release();
  }
}

/** A home that cannot be written is no reason to refuse what is in the keychain: then we go without. */
async function takeLock(looks: boolean): Promise<boolean> {
  try {
    // Where nobody has ever changed anything, nobody is in the way.
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

import { ValiseError } from '../../errors.ts';
import { CallerLimitError } from '../quota.ts';
import { type Held, rowOf } from './held.ts';
import type { EndReason } from './hooks.ts';
import type { Found, Registry } from './registry.ts';
import { HOOK_TIME, type Row } from './row.ts';

/** Returns the record of a session while `onCreate` is running. */
export function beginningRow(held: Held): Row {
  return { ...rowOf(held, null), expires: hookEnd(), beginning: true };
}

/**
 * Runs the author's hook for a session whose record is written. Returns the record that the session is to replace.
 *
 * Meanwhile it keeps postponing the record's end, so that the record expires if the instance has died, not if the hook takes
 * long.
 */
export async function prepare(
  { registry, endings }: { readonly registry: Registry; readonly endings: { readonly isClosed: boolean } },
  begun: Found,
  hook: () => void | Promise<void>,
): Promise<Found> {
  let current = begun;
  let renewed = Promise.resolve();
  const renew = async (): Promise<void> => {
    const found = endings.isClosed ? undefined : await registry.find(begun.row.id);
    if (!found || !isStill(found.row, begun.row)) return;
    const row = { ...found.row, expires: hookEnd() };
    const version = await registry.save(row, found);
    // The session must not replace a record that was ended meanwhile. Its end is reported after the hook.
    if (version !== undefined && row.ended === null) current = { ...found, row, version };
  };
  const timer = setInterval(
    () => {
      // If the record cannot be written now, the next attempt will write it.
      renewed = renewed.then(renew).catch(() => undefined);
    },
    (HOOK_TIME * 1000) / 3,
  );
  timer.unref();
  try {
    await hook();
  } finally {
    clearInterval(timer);
    await renewed;
  }
  return current;
}

/** Returns the error for a session that ended while the author's hook was running. */
export function notBegun(reason: EndReason): ValiseError {
  return reason === 'evicted'
    ? new CallerLimitError('The session ended before it had begun.', {
        next: 'Try again; where many are created at the same time, with fewer of them.',
      })
    : new ValiseError('session-gone', `A session ended while onCreate was at work on it: ${reason}.`);
}

function isStill({ beginning, told, created }: Row, begun: Row): boolean {
  return beginning === true && !told && created === begun.created;
}

function hookEnd(): number {
  return Date.now() + HOOK_TIME * 1000;
}

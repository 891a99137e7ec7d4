import { randomBytes } from 'node:crypto';
import { ValiseError } from '../../core/errors.ts';
import type { SessionMeta } from '../../wire/index.ts';
import { CallerLimitError } from '../quota.ts';
import type { OpenSession, Requester, SessionBackend } from './backend.ts';
import { HOOK_TIME, lifetimeOf, type SessionExpiry } from './expiry.ts';
import type { SessionsSettings } from './options.ts';
import type { SessionRecord, SessionRecords, StoredRecord } from './records.ts';
import { PreparedSession } from './request-session.ts';
import type { EndReason } from './session.ts';
import type { SessionIndex } from './session-index.ts';
import { SessionState, type Values } from './session-state.ts';

/** What it takes to create sessions. */
export interface CreateOptions {
  readonly settings: SessionsSettings;
  readonly records: SessionRecords;
  readonly index: SessionIndex;
  readonly expiry: SessionExpiry;
  readonly backend: SessionBackend;
}

/** The initial values of a new session. */
export interface InitialValues {
  readonly label?: string | undefined;
  readonly values?: Values | undefined;
  /** The id of the session that it is forked from. */
  readonly parent?: string | undefined;
}

/** Creates a session: adds it to the owner's list, calls `onCreate`, and writes its first state. */
export async function createSession(
  options: CreateOptions,
  requester: Requester,
  { label, values = {}, parent }: InitialValues,
): Promise<SessionMeta> {
  const { settings, records, index, expiry, backend } = options;
  expiry.checkRoom();
  const id = `sess-${randomBytes(18).toString('base64url')}`;
  const placement = index.placementOf(requester, { id, isDefault: false, parent });
  const { owner, version } = requester;
  const record: SessionRecord = {
    ...newRecord(settings, id, owner),
    index: placement.index,
    places: placement.places,
    label: label ?? null,
    version,
  };
  const session: OpenSession = { record, state: new SessionState(values, settings), stored: undefined };
  const first = settings.onCreate ? undefined : await backend.begin(session, requester);
  // The record is written first: whoever has to end a session of the list must find it. The place in the list comes next: an
  // author must not allocate resources for a session that finds no place.
  const added = await records.add(first?.record ?? preparing(record));
  const evicted = await index.add(record, placement).catch(async (error: unknown) => {
    await records.remove(id);
    throw error;
  });
  await expiry.watch(record, added.record.expires);
  for (const old of evicted) await expiry.end(old, 'evicted');
  if (first) return first.meta;
  const begin = () => backend.begin(session, requester);
  return (await prepare(options, session, added, { isDefault: false, parent, begin })).meta;
}

/** Returns the record of a session that begins now, without state and in no list. */
export function newRecord(settings: SessionsSettings, id: string, owner: string | null): SessionRecord {
  const lifetime = lifetimeOf(settings, owner === null);
  return {
    id,
    owner,
    index: '',
    label: null,
    ...lifetime,
    seq: 0,
    data: null,
    ended: null,
    announced: false,
  };
}

/** Returns the record of a session while `onCreate` is running. */
export function preparing(record: SessionRecord): SessionRecord {
  return { ...record, expires: hookEnd(), preparing: true };
}

/**
 * Calls `onCreate` for a session whose record says that it is being prepared, and writes its first record.
 *
 * Returns what `begin` returns. If `onCreate` fails, nothing of the session is left.
 */
export async function prepare<Begun extends { readonly record: SessionRecord }>(
  { settings, records, index, expiry }: Omit<CreateOptions, 'backend'>,
  session: OpenSession,
  added: StoredRecord,
  {
    isDefault,
    parent,
    begin,
  }: {
    readonly isDefault: boolean;
    readonly parent?: string | undefined;
    readonly begin: () => Promise<Begun>;
  },
): Promise<Begun> {
  const { record } = session;
  let current: StoredRecord;
  try {
    current = await whileRenewing({ records, expiry }, added, async () =>
      settings.onCreate?.(new PreparedSession(session, { isDefault, parent })),
    );
  } catch (error) {
    await records.remove(record.id);
    await index.remove(record, { hasTombstone: false });
    throw error;
  }
  const begun = await begin().catch(async (error: unknown) => {
    await expiry.endPrepared(record);
    throw error;
  });
  if ((await records.save(begun.record, current)) !== undefined) return begun;
  throw notBegun(await expiry.endPrepared(begun.record));
}

/**
 * Runs the author's hook for a session. Returns the record that the session is to replace.
 *
 * Meanwhile it keeps postponing the record's end, so that the record expires if the instance has died, not if the hook takes
 * long.
 */
async function whileRenewing(
  { records, expiry }: Pick<CreateOptions, 'records' | 'expiry'>,
  added: StoredRecord,
  hook: () => Promise<void>,
): Promise<StoredRecord> {
  const { id, created } = added.record;
  let current = added;
  let renewed = Promise.resolve();
  const renew = async (): Promise<void> => {
    const found = expiry.isClosed ? undefined : await records.find(id);
    if (!found?.record.preparing || found.record.announced || found.record.created !== created) return;
    const record = { ...found.record, expires: hookEnd() };
    const version = await records.save(record, found);
    // The session must not replace a record that was ended meanwhile. Its end is reported after the hook.
    if (version !== undefined && record.ended === null) current = { record, version };
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
function notBegun(reason: EndReason): ValiseError {
  return reason === 'evicted'
    ? new CallerLimitError('The session ended before it had begun.', {
        next: 'Try again. Create fewer sessions at the same time.',
      })
    : new ValiseError('session-gone', `A session ended while onCreate was preparing it: ${reason}.`);
}

function hookEnd(): number {
  return Date.now() + HOOK_TIME * 1000;
}

import type { Json } from '../../core/json.ts';
import { SealError } from '../../seal/index.ts';
import type { SessionMeta } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { Quota } from '../quota.ts';
import {
  type Committed,
  metaOf,
  type OpenSession,
  type Refusal,
  type Requester,
  refuseVersion,
  type SessionBackend,
} from './backend.ts';
import { tooMuch } from './errors.ts';
import { isExtensionDue, nextExpiry, type SessionExpiry } from './expiry.ts';
import { SAFE_STATE, type SessionsSettings } from './options.ts';
import type { SessionRecord, SessionRecords, StoredRecord } from './records.ts';
import { readValues, SessionState } from './session-state.ts';

/**
 * The sealed content of a session's `state`: the complete session, so that it needs no store. Without a version, the session
 * was made with 1.0 of `dev.valise/sessions`.
 */
type Payload = readonly [
  seq: number,
  expires: number,
  until: number,
  label: string | 0,
  data: Json,
  version?: string,
];

const PURPOSE = 'session';

/** Sessions whose state is with the client. The seal authenticates the id; a store can only revoke. */
export class SealedBackend implements SessionBackend {
  readonly #context: ServerContext;
  readonly #settings: SessionsSettings;
  readonly #records: SessionRecords;
  readonly #expiry: SessionExpiry;
  /** Counts the bytes of states that are too large to travel. */
  readonly #spilled: Quota;

  constructor(
    context: ServerContext,
    settings: SessionsSettings,
    records: SessionRecords,
    expiry: SessionExpiry,
  ) {
    this.#context = context;
    this.#settings = settings;
    this.#records = records;
    this.#expiry = expiry;
    const { maxSpilled } = settings;
    this.#spilled = new Quota({ perCaller: { bytes: maxSpilled / 10 }, total: { bytes: maxSpilled } });
  }

  async open({ sessionId, state }: SessionMeta, requester: Requester): Promise<OpenSession | Refusal> {
    const { sealer, store } = this.#context;
    if (this.#expiry.hasEnded(sessionId)) return { refused: 'it has ended' };
    if (state === undefined) return { refused: 'it came without its state' };
    const bound = { purpose: PURPOSE, subject: requester.subject, bind: sessionId };
    try {
      if (!store) return this.#read(sessionId, sealer.open<never>(state, bound), requester, undefined);
      const [payload, stored] = await Promise.all([
        sealer.openLarge<never>(state, bound),
        this.#records.find(sessionId),
      ]);
      if (stored && stored.record.ended !== null) return { refused: stored.record.ended };
      return this.#read(sessionId, payload, requester, stored);
    } catch (error) {
      if (error instanceof SealError) return { refused: `its seal was refused: ${error.reason}` };
      throw error;
    }
  }

  async begin(session: OpenSession, requester: Requester) {
    const { record } = session;
    return { meta: metaOf(record, await this.#seal(session, requester, record)), record };
  }

  async commit(session: OpenSession, requester: Requester): Promise<Committed> {
    const { record, state } = session;
    const { isChanged } = state;
    const isExtended = isExtensionDue(record, this.#settings);
    if (!isChanged && !isExtended) return metaOf(record);
    const next = {
      id: record.id,
      expires: isExtended ? nextExpiry(record, this.#settings) : record.expires,
      seq: isChanged ? record.seq + 1 : record.seq,
    };
    const [sealed, isGone] = await Promise.all([
      this.#seal(session, requester, next),
      isExtended && this.#extend(session, next.expires),
    ]);
    return isGone ? 'gone' : metaOf(next, sealed);
  }

  #read(
    id: string,
    payload: Payload,
    { owner }: Requester,
    stored: StoredRecord | undefined,
  ): OpenSession | Refusal {
    const isComplete = Array.isArray(payload) && (payload.length === 5 || payload.length === 6);
    const values = isComplete ? readValues(payload[4]) : undefined;
    if (!values) return { refused: 'its state is of another version' };
    const [seq, expires, until, label, , version = stored?.record.version] = payload;
    const refusal = refuseVersion(version);
    if (refusal) return refusal;
    if (expires <= Date.now()) return { refused: 'expired' };
    const record: SessionRecord = {
      id,
      owner,
      index: stored?.record.index ?? '',
      label: label === 0 ? null : label,
      created: stored?.record.created ?? 0,
      expires,
      until,
      seq,
      data: null,
      ended: null,
      announced: false,
      ...(version !== undefined && { version }),
    };
    return { record, state: new SessionState(values, this.#settings), stored };
  }

  async #seal(
    { record, state }: OpenSession,
    { subject, caller }: Requester,
    { expires, seq }: Pick<SessionRecord, 'expires' | 'seq'>,
  ): Promise<string> {
    const { sealer, store } = this.#context;
    const { id, until, label, version = '1.0' } = record;
    const values = state.checked();
    const session = [seq, expires, until, label ?? 0, values] as const;
    const payload: Payload = version === '1.0' ? session : [...session, version];
    const ttl = Math.max(1, (expires - Date.now()) / 1000);
    const options = { purpose: PURPOSE, subject, bind: id, ttl };
    if (!store) return this.#warnIfLarge(sealer.seal(payload as Json, options));
    // Each state in the store stays until its seal has expired, since an older one may still come back.
    const bytes = Buffer.byteLength(JSON.stringify(values));
    const isLarge = (bytes * 4) / 3 > this.#settings.spillAbove;
    if (isLarge && typeof this.#spilled.take(caller, { bytes, ttl }) === 'string')
      throw tooMuch('sessions.maxSpilled');
    return sealer.sealLarge(payload as Json, options);
  }

  /**
   * Extends the expiry in the record too, if there is one. A later end set by another request stays. Returns whether the
   * session has ended.
   */
  async #extend({ record: { id }, stored }: OpenSession, expires: number): Promise<boolean> {
    let isGone = false;
    await this.#records.replace(
      id,
      (record) => {
        isGone = record !== undefined && record.ended !== null;
        return !record || isGone || record.expires >= expires ? undefined : { ...record, expires };
      },
      { seen: stored },
    );
    return isGone;
  }

  #warnIfLarge(token: string): string {
    if (token.length > SAFE_STATE) {
      this.#context.warnOnce('large-session', {
        what: `The state of a session takes ${token.length} bytes, and all of it travels with every request and answer.`,
        next: 'Give createValise a store: larger states stay there, and only a reference travels.',
      });
    }
    return token;
  }
}

import { SealError } from '../../seal/index.ts';
import type { SessionMeta } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { Recent } from '../recent.ts';
import {
  type Committed,
  metaOf,
  type OpenSession,
  type Refusal,
  type Requester,
  refuseVersion,
  type SessionBackend,
} from './backend.ts';
import { isExtensionDue, nextExpiry, type SessionExpiry } from './expiry.ts';
import type { SessionsSettings } from './options.ts';
import { isAlive, isPreparing, type SessionRecord, type SessionRecords } from './records.ts';
import { SessionState } from './session-state.ts';

const PURPOSE = 'session';
/** The number of sessions whose last seal is remembered. */
const MAX_SEALS = 4096;

/**
 * Sessions whose state is in the store, where a write succeeds only if nobody else has written.
 *
 * Their `state` on the wire is a seal of the state's number alone. It binds the id to its principal, and requests with a forged
 * one are refused before the store is read.
 */
export class StoredBackend implements SessionBackend {
  readonly #sealer: ServerContext['sealer'];
  readonly #settings: SessionsSettings;
  readonly #records: SessionRecords;
  readonly #expiry: SessionExpiry;
  /** The last seal that this process issued for each session. If it comes back unaltered, it need not be opened. */
  readonly #issued = new Recent<{ readonly seal: string; readonly subject: string | undefined }>(MAX_SEALS);

  constructor(
    { sealer }: ServerContext,
    settings: SessionsSettings,
    records: SessionRecords,
    expiry: SessionExpiry,
  ) {
    this.#sealer = sealer;
    this.#settings = settings;
    this.#records = records;
    this.#expiry = expiry;
  }

  async open(session: SessionMeta, requester: Requester): Promise<OpenSession | Refusal> {
    const refused = this.#refuseSeal(session, requester);
    if (refused) return refused;
    const stored = await this.#records.find(session.sessionId);
    if (!stored) return { refused: 'unknown' };
    const { record } = stored;
    if (record.owner !== requester.owner) return { refused: 'it belongs to somebody else' };
    if (record.ended !== null) return { refused: record.ended };
    const refusal = refuseVersion(record.version);
    if (refusal) return refusal;
    if (isPreparing(record)) return { refused: 'it has not begun' };
    if (isAlive(record))
      return { record, state: new SessionState(record.data ?? {}, this.#settings), stored };
    if (this.#settings.onEnd) this.#expiry.end(record.id, 'expired').catch(() => undefined);
    return { refused: 'expired' };
  }

  async begin({ record, state }: OpenSession, requester: Requester) {
    return {
      meta: metaOf(record, this.#seal(record, requester)),
      record: { ...record, data: state.checked() },
    };
  }

  async commit(session: OpenSession, requester: Requester): Promise<Committed> {
    const { record: opened, state, stored } = session;
    const { isChanged } = state;
    if (!isChanged && !isExtensionDue(opened, this.#settings)) return metaOf(opened);
    let failure: Committed = 'gone';
    const saved = await this.#records.replace(
      opened.id,
      (record) => {
        failure = 'gone';
        if (!record || !isAlive(record)) return undefined;
        if (record !== stored?.record) {
          // Whoever came in between has postponed the end too.
          failure = isChanged ? 'conflict' : metaOf({ ...opened, expires: record.expires });
          // Other changes do no harm if this handler has not read what they changed.
          if (!isChanged || !state.rebase(record.data ?? {})) return undefined;
        }
        const expires = nextExpiry(record, this.#settings);
        return isChanged
          ? { ...record, data: state.checked(), seq: record.seq + 1, expires }
          : { ...record, expires };
      },
      { seen: stored },
    );
    return saved ? metaOf(saved.record, this.#seal(saved.record, requester)) : failure;
  }

  #seal({ id, seq, expires }: SessionRecord, { subject }: Requester): string {
    const ttl = Math.max(1, (expires - Date.now()) / 1000);
    const seal = this.#sealer.seal(seq, { purpose: PURPOSE, subject, bind: id, ttl });
    this.#issued.set(id, { seal, subject });
    return seal;
  }

  #refuseSeal({ sessionId, state }: SessionMeta, { subject }: Requester): Refusal | undefined {
    if (state === undefined) return undefined;
    const issued = this.#issued.get(sessionId);
    if (issued && issued.subject === subject && issued.seal === state) return undefined;
    try {
      this.#sealer.open(state, { purpose: PURPOSE, subject, bind: sessionId });
      return undefined;
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      // The store is authoritative on when a session ends: later use may have postponed it.
      return error.reason === 'expired' ? undefined : { refused: `its seal was refused: ${error.reason}` };
    }
  }
}

import { SealError } from '../../seal/index.ts';
import { isUsable } from '../../wire/extension-version.ts';
import type { SessionMeta } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { SessionData } from './data.ts';
import type { Endings } from './endings.ts';
import { GivenSeals } from './given-seals.ts';
import {
  type Committed,
  type Held,
  isExtensionDue,
  type Keeping,
  metaOf,
  nextExpiry,
  otherVersion,
  type Refusal,
  type Requester,
  rowOf,
} from './held.ts';
import type { SessionsSettings } from './options.ts';
import type { Found, Registry } from './registry.ts';
import { isBeginning, isLiving, type Row } from './row.ts';

/**
 * Creates the storage of sessions whose state is in the store, where a write succeeds only if nobody else has written.
 *
 * Their `state` on the wire is a seal of the state's number alone. It binds the id to its principal, and requests with a forged
 * one are refused before the store is read.
 */
export function storedKeeping(
  { sealer }: ServerContext,
  settings: SessionsSettings,
  { registry, endings }: { readonly registry: Registry; readonly endings: Endings },
): Keeping {
  const purpose = 'session';

  const given = new GivenSeals();

  const sealOf = (id: string, { subject }: Requester, seq: number, expires: number): string => {
    const ttl = Math.max(1, (expires - Date.now()) / 1000);
    const state = sealer.seal(seq, { purpose, subject, bind: id, ttl });
    given.add(id, subject, state);
    return state;
  };

  const faultOf = ({ sessionId, state }: SessionMeta, { subject }: Requester): string | undefined => {
    if (state === undefined || given.has(sessionId, subject, state)) return undefined;
    try {
      sealer.open(state, { purpose, subject, bind: sessionId });
      return undefined;
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      // The store is authoritative on when a session ends: later use may have postponed it.
      return error.reason === 'expired' ? undefined : `its seal was refused: ${error.reason}`;
    }
  };

  const read = (found: Found | undefined, requester: Requester): Held | Refusal => {
    if (!found) return { refused: 'unknown' };
    const { row } = found;
    if (row.owner !== requester.owner) return { refused: 'it belongs to somebody else' };
    if (row.ended !== null) return { refused: row.ended };
    if (row.version !== '1.0' && !isUsable('sessions', row.version)) return otherVersion(row);
    if (isBeginning(row)) return { refused: 'it has not begun' };
    if (!isLiving(row)) {
      if (settings.onEnd) endings.end(row.id, 'expired').catch(() => undefined);
      return { refused: 'expired' };
    }
    return { ...row, label: row.label ?? undefined, data: dataOf(row, settings), found };
  };

  const save = async (held: Held, requester: Requester): Promise<Committed> => {
    let refused: Committed = 'gone';
    const saved = await registry.replace(
      held.id,
      (row) => {
        refused = 'gone';
        if (!row || !isLiving(row)) return undefined;
        const { isChanged } = held.data;
        if (row !== held.found?.row) {
          // Whoever came in between has postponed the end too.
          refused = isChanged ? 'conflict' : metaOf(held.id, row.expires, held.seq);
          // Other changes do no harm if this handler has not read what they changed.
          if (!isChanged || !held.data.rebase(row.data ?? {})) return undefined;
        }
        const expires = nextExpiry(row, settings, Date.now());
        return isChanged
          ? { ...row, data: held.data.kept(), seq: row.seq + 1, expires }
          : { ...row, expires };
      },
      { seen: held.found },
    );
    if (!saved) return refused;
    const { seq, expires } = saved.row;
    return metaOf(held.id, expires, seq, sealOf(held.id, requester, seq, expires));
  };

  return {
    open(session, requester) {
      const fault = faultOf(session, requester);
      if (fault !== undefined) return { refused: fault };
      return registry.find(session.sessionId).then((found) => read(found, requester));
    },

    async begin(held, requester) {
      const state = sealOf(held.id, requester, held.seq, held.expires);
      return {
        meta: metaOf(held.id, held.expires, held.seq, state),
        row: rowOf(held, held.data.kept()),
      };
    },

    commit(held, requester) {
      if (!held.data.isChanged && !isExtensionDue(held, settings, Date.now()))
        return metaOf(held.id, held.expires, held.seq);
      return save(held, requester);
    },
  };
}

function dataOf({ data }: Row, settings: SessionsSettings): SessionData {
  return new SessionData(data ?? {}, settings);
}

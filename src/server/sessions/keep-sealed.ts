import type { Json } from '../../json.ts';
import { SealError } from '../../seal/index.ts';
import { isUsable } from '../../wire/extension-version.ts';
import type { SessionMeta } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { Quota } from '../quota.ts';
import { readData, SessionData } from './data.ts';
import type { Endings } from './endings.ts';
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
import { SAFE_STATE, type SessionsSettings } from './options.ts';
import type { Found, Registry } from './registry.ts';
import { tooMuch } from './shelf.ts';

/** The sealed content of a session's `state`: the complete session, so that it needs no store. */
type Payload = readonly [seq: number, expires: number, until: number, label: string | 0, data: Json];

/** Creates the storage of sessions whose state is with the client. The seal proves the id; a store can only revoke. */
export function sealedKeeping(
  { sealer, store, warnOnce }: ServerContext,
  settings: SessionsSettings,
  { registry, endings }: { readonly registry: Registry; readonly endings: Endings },
): Keeping {
  const purpose = 'session';
  const spilled = new Quota({
    perCaller: { bytes: settings.maxSpilled / 10 },
    total: { bytes: settings.maxSpilled },
  });

  const seal = (held: Held, requester: Requester, expires: number, seq: number): string | Promise<string> => {
    const data = held.data.kept();
    const payload: Payload = [seq, expires, held.until, held.label ?? 0, data];
    const ttl = Math.max(1, (expires - Date.now()) / 1000);
    const options = { purpose, subject: requester.subject, bind: held.id, ttl };
    if (!store) return warnIfLarge(sealer.seal(payload as Json, options));
    // Each state in the store stays until its seal has expired, since an older one may still come back.
    const bytes = Buffer.byteLength(JSON.stringify(data));
    const isLarge = (bytes * 4) / 3 > settings.spillAbove;
    if (isLarge && typeof spilled.take(requester.caller, { bytes, ttl }) === 'string')
      throw tooMuch('sessions.maxSpilled');
    return sealer.sealLarge(payload as Json, options);
  };

  const warnIfLarge = (token: string): string => {
    if (token.length > SAFE_STATE) {
      warnOnce('large-session', {
        what: `The state of a session takes ${token.length} bytes, and all of it travels with every request and answer.`,
        next: 'Give createValise a store: larger states stay there, and only a reference travels.',
      });
    }
    return token;
  };

  const read = (
    id: string,
    payload: Payload,
    requester: Requester,
    found: Found | undefined,
  ): Held | Refusal => {
    const data = Array.isArray(payload) && payload.length === 5 ? readData(payload[4]) : undefined;
    if (!data) return { refused: 'its state is of another version' };
    const [seq, expires, until, label] = payload;
    if (expires <= Date.now()) return { refused: 'expired' };
    return {
      id,
      owner: requester.owner,
      shelf: found?.row.shelf ?? '',
      label: label === 0 ? undefined : label,
      created: found?.row.created ?? 0,
      expires,
      until,
      seq,
      data: new SessionData(data, settings),
      version: found?.row.version,
      found,
    };
  };

  const openLate = async (id: string, state: string, requester: Requester): Promise<Held | Refusal> => {
    const [payload, found] = await Promise.all([
      sealer.openLarge<never>(state, { purpose, subject: requester.subject, bind: id }).catch(refusalOf),
      registry.find(id),
    ]);
    if (isRefused(payload)) return payload;
    if (found && found.row.ended !== null) return { refused: found.row.ended };
    if (found && found.row.version !== '1.0' && !isUsable('sessions', found.row.version))
      return otherVersion(found.row);
    return read(id, payload, requester, found);
  };

  const commitWith = (held: Held, expires: number, seq: number, state: string): SessionMeta =>
    metaOf(held.id, expires, seq, state);

  /** Postpones the end in the registry too. A later end set by another request stays, and an ended session stays ended. */
  const extend = async (held: Held, expires: number): Promise<'gone' | undefined> => {
    let isGone = false;
    await registry.replace(
      held.id,
      (row) => {
        isGone = row !== undefined && row.ended !== null;
        return !row || isGone || row.expires >= expires ? undefined : { ...row, expires };
      },
      { seen: held.found },
    );
    return isGone ? 'gone' : undefined;
  };

  return {
    open({ sessionId, state }, requester) {
      if (endings.isOver(sessionId)) return { refused: 'it has ended' };
      if (state === undefined) return { refused: 'it came without its state' };
      if (store) return openLate(sessionId, state, requester);
      try {
        const bound = { purpose, subject: requester.subject, bind: sessionId };
        return read(sessionId, sealer.open<never>(state, bound), requester, undefined);
      } catch (error) {
        return refusalOf(error);
      }
    },

    async begin(held, requester) {
      const state = await seal(held, requester, held.expires, held.seq);
      return { meta: metaOf(held.id, held.expires, held.seq, state), row: rowOf(held, null) };
    },

    commit(held, requester): Committed | Promise<Committed> {
      const now = Date.now();
      const { isChanged } = held.data;
      const extending = isExtensionDue(held, settings, now);
      if (!isChanged && !extending) return metaOf(held.id, held.expires, held.seq);
      const expires = extending ? nextExpiry(held, settings, now) : held.expires;
      const seq = isChanged ? held.seq + 1 : held.seq;
      const state = seal(held, requester, expires, seq);
      if (typeof state === 'string' && !extending) return commitWith(held, expires, seq, state);
      return Promise.all([state, extending ? extend(held, expires) : undefined]).then(
        ([sealed, gone]) => gone ?? commitWith(held, expires, seq, sealed),
      );
    },
  };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof SealError) return { refused: `its seal was refused: ${error.reason}` };
  throw error;
}

function isRefused(payload: Payload | Refusal): payload is Refusal {
  return !Array.isArray(payload) && 'refused' in payload;
}

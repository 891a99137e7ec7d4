import { randomBytes } from 'node:crypto';
import { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { type Collection, collection, type Members, recordsOf } from '../../store/kit/collection.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange } from '../exchange.ts';
import { Quota } from '../quota.ts';

/** How long a handle lives: after its last use, and at most, in seconds. */
const IDLE = 86_400;
/** How much longer a record is kept, so that not every use has to be recorded, in seconds. */
const SLACK = 7200;
const LONGEST = 30 * 86_400;

/** The time in which the number of new handles is limited, in seconds. */
const HOUR = 3600;

/** How many handles this process creates within an hour, for one caller and in total. */
export interface HandleLimits {
  readonly perCaller: number;
  readonly total: number;
}

/** The handles that this server has given out. Only their hashes are stored. */
export class HandleRecords {
  readonly #records: Collection<Members>;
  readonly #created: Quota;
  readonly #events: ServerContext['events'];

  constructor(
    { store, name, events }: ServerContext & { readonly store: NonNullable<ServerContext['store']> },
    { perCaller, total }: HandleLimits,
  ) {
    this.#records = collection(store, `handles/${sha256(name).slice(0, 16)}/`, recordsOf('state handle'));
    this.#created = new Quota({ perCaller: { count: perCaller }, total: { count: total } });
    this.#events = events;
  }

  /** Returns a new handle, which nobody has been given yet. */
  static make(): string {
    return `vh1_${randomBytes(16).toString('base64url')}`;
  }

  /** Whether this server has given the handle out and it has not expired. Its use is recorded. */
  async find(handle: string): Promise<boolean> {
    if (!/^vh1_[\w-]{22}$/.test(handle)) return false;
    const key = sha256(handle);
    const found = await this.#records.get(key);
    const until = found?.value?.['until'];
    const now = Date.now();
    if (!found || typeof until !== 'number' || until <= now) return false;
    const isDue = found.expiresAt !== undefined && found.expiresAt - now < IDLE * 1000;
    if (isDue) await this.#put(key, until, { ifVersion: found.version });
    return true;
  }

  /** Records that a handle is given out. Throws if the caller has been given too many. */
  async add(handle: string, { caller }: Exchange): Promise<void> {
    const taken = this.#created.take(caller, { ttl: HOUR });
    if (typeof taken === 'string') {
      this.#events.emit('rejected', { family: 'state', what: 'a new state handle', reason: taken });
      throw tooMany();
    }
    await this.#put(sha256(handle), Date.now() + LONGEST * 1000, {});
  }

  async #put(key: string, until: number, condition: { readonly ifVersion?: string }): Promise<void> {
    const ttl = Math.max(1, Math.min(IDLE + SLACK, Math.ceil((until - Date.now()) / 1000)));
    await this.#records.put(key, { until }, { ttl, ...condition });
  }
}

function tooMany(): ValiseError {
  return new ValiseError('limit-reached', 'The server has given out too many state handles.', {
    next: 'Try again later, sign in, or use a client that carries its state.',
  });
}

import { SealError } from '../../seal/index.ts';
import type { Store } from '../../store/types.ts';
import type { RoundContext } from './context.ts';
import { hold } from './lease.ts';

/** The right to answer a round. */
export interface Turn {
  /** True where nobody else can be answering the same round. */
  readonly exclusive: boolean;
  /** The answer is on its way out: a moment later the round is over for everybody. */
  done(): void;
  /** Nothing has gone out: another one may answer the round. */
  abandon(): Promise<void>;
}

/** The turn of a round that may be answered again: nobody remembers it. */
export const SHARED: Turn = { exclusive: false, done: () => {}, abandon: async () => {} };

/** How long an answer may take to leave this process, in milliseconds: one that dies before must not have used it up. */
const LEAVING = 50;

/** How much longer than its round the mark of a used one lives, in seconds: clocks differ. */
const SLACK = 180;

/**
 * Each round is answered once where there is a store to remember it. It counts as answered when the answer has gone
 * out and not before: an instance that dies in the middle leaves the round open, and another one takes it over.
 */
export async function takeTurn(
  store: Store | undefined,
  { f, n, e }: RoundContext,
  failed: (error: unknown) => void,
): Promise<Turn> {
  if (!store) return SHARED;
  const name = `rounds/turn/${f}.${n}`;
  const held = await hold(store, `${name}/lease`);
  if (!held) throw new SealError('replayed');
  if (await store.get(name)) {
    await held.release();
    throw new SealError('replayed');
  }
  let over = false;
  return {
    exclusive: true,
    done() {
      if (over) return;
      over = true;
      const left = Math.max(0, e - Math.floor(Date.now() / 1000));
      setTimeout(() => {
        store
          .put(name, 1, { ttl: left + SLACK })
          .then(() => held.release())
          .catch(failed);
      }, LEAVING);
    },
    async abandon() {
      if (over) return;
      over = true;
      await held.release();
    },
  };
}

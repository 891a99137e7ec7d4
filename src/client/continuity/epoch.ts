import { randomBytes } from 'node:crypto';
import type { Notification } from '../../wire/index.ts';
import type { Call } from '../call.ts';

/**
 * Sets the ids of one process apart from those of the one before it in the same session. Both SDKs count from 0, and a
 * server that still works on an old call would answer the new one with it.
 */
export class Epoch {
  readonly #mark = `${randomBytes(6).toString('base64url')}:`;

  /** Puts the mark before the id of a call, and before its progress token. Ids that are texts of others stay. */
  mark(call: Call): void {
    const { id, params } = call.request;
    if (typeof id !== 'number' && !id.startsWith('valise:')) return;
    call.baseId = `${this.#mark}${id}`;
    const token = params?._meta?.['progressToken'];
    if (typeof token === 'number') call.addMeta('epoch', { progressToken: `${this.#mark}${token}` });
  }

  /** A progress notification with the token that the SDK knows; undefined where it is none of ours. */
  unmarked({ params, ...notification }: Notification): Notification | undefined {
    const token = params?.['progressToken'];
    if (notification.method !== 'notifications/progress' || typeof token !== 'string') return undefined;
    if (!token.startsWith(this.#mark)) return undefined;
    return { ...notification, params: { ...params, progressToken: Number(token.slice(this.#mark.length)) } };
  }
}

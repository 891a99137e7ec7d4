import { randomBytes } from 'node:crypto';
import type { Notification } from '../../wire/index.ts';
import type { Call } from '../call.ts';

/**
 * Distinguishes the ids of one process from those of the previous one in the same session. Both SDKs count from 0, so a
 * server still working on an old call could answer the new one with its result.
 */
export class Epoch {
  readonly #mark = `${randomBytes(6).toString('base64url')}:`;

  /** Prefixes a call's id and progress token with the mark. String ids of others stay unchanged. */
  mark(call: Call): void {
    const { id, params } = call.request;
    if (typeof id !== 'number' && !id.startsWith('valise:')) return;
    call.baseId = `${this.#mark}${id}`;
    const token = params?._meta?.['progressToken'];
    if (typeof token === 'number') call.addMeta('epoch', { progressToken: `${this.#mark}${token}` });
  }

  /** Returns a progress notification with the SDK's own token. Returns undefined if the token is not marked by this process. */
  unmarked({ params, ...notification }: Notification): Notification | undefined {
    const token = params?.['progressToken'];
    if (notification.method !== 'notifications/progress' || typeof token !== 'string') return undefined;
    if (!token.startsWith(this.#mark)) return undefined;
    return { ...notification, params: { ...params, progressToken: Number(token.slice(this.#mark.length)) } };
  }
}

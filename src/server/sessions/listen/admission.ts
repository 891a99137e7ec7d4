import { ValiseError } from '../../../errors.ts';
import { sessionRequired } from '../../../wire/index.ts';
import type { Exchange, Reply } from '../../exchange.ts';
import type { Gates } from '../gate.ts';
import type { SessionsSettings } from '../options.ts';

/** Options of `admission`. */
export interface AdmissionOptions {
  readonly gates: Gates;
  readonly mayListen: SessionsSettings['mayListen'];
}

/**
 * Returns why a client may not listen to a session (or, without one, to what belongs to none) and to resources.
 *
 * Returns undefined if it may.
 */
export type Admit = (
  exchange: Exchange,
  session: string | undefined,
  resources: readonly string[],
) => Promise<Reply | undefined>;

/** Creates the check that lets the author decide who may listen. */
export function admission({ gates, mayListen }: AdmissionOptions): Admit {
  return async (exchange, session, resources) => {
    const needsOne = (uri: string): boolean =>
      gates.requires(exchange, { ...exchange.request, method: 'resources/subscribe', params: { uri } });
    // The transport's own session may stand in for a subscriber's; `requests.ts` handles that.
    const isOnItsOwn = session === undefined && exchange.method !== 'resources/subscribe';
    if (isOnItsOwn && resources.some(needsOne)) return { error: sessionRequired(exchange.spelling.sessions) };
    if (mayListen && (await mayListen({ principal: exchange.principal, session, resources })) !== true)
      throw mayNot();
    return undefined;
  };
}

function mayNot(): ValiseError {
  return new ValiseError('access-denied', 'The server does not let this client hear of what it asked for.', {
    next: 'Ask without the resources that are not for it.',
  });
}

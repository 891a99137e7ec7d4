import { type Finding, ok, warn } from './finding.ts';
import type { Seen } from './probe.ts';

/** Observations by era. */
export type SeenByEra = Partial<Record<'legacy' | 'modern', Seen>>;

const ERAS = ['legacy', 'modern'] as const;

const MEANING = {
  state: ['the jar', 'State that it sets travels with the client.'],
  sessions: ['sessions', 'valise call --session works.'],
  rounds: ['rounds', 'Its questions survive the death of an instance.'],
} as const;

const FAMILIES = ['state', 'sessions', 'rounds'] as const;

/**
 * Returns which families a server offers, and what that means. A server without them is not at fault, and the user may not
 * be able to change it.
 */
export function checkFamilies(seen: SeenByEra): Finding[] {
  const offered = FAMILIES.filter((family) => ERAS.some((era) => offers(seen[era], family)));
  if (offered.length === 0)
    return [
      ok(
        'families',
        'The server announces no state, data-layer sessions or rounds. Calls, sign-in and questions work; it gets no --session, and a question is open only as long as the server waits.',
      ),
    ];
  const findings = offered.map((family) => {
    const [name, works] = MEANING[family];
    return ok(name, `Offered in ${ERAS.filter((era) => offers(seen[era], family)).join(' and ')}. ${works}`);
  });
  const missing = FAMILIES.filter((family) => !offered.includes(family)).map((family) =>
    // With Valise, a server announces rounds as soon as it has a flow.
    family === 'rounds' && offered.includes('state')
      ? ok('rounds', 'The server has Valise and asks no questions; there is nothing to carry.')
      : ok(MEANING[family][0], 'Not offered by this server.'),
  );
  return [...findings, ...missing, ...revocation(seen)];
}

function offers(seen: Seen | undefined, family: keyof typeof MEANING): boolean {
  const announced = seen?.families[family];
  return Array.isArray(announced) ? announced.length > 0 : announced === true;
}

/** Describes revocation: what the end of a session means depends on whether the instances can notify each other. */
function revocation({ legacy, modern }: SeenByEra): Finding[] {
  switch (modern?.families.revocation ?? legacy?.families.revocation) {
    case 'everywhere':
      return [ok('revocation', 'A session that is deleted or revoked is over on every instance at once.')];
    case 'expiry':
      return [
        warn(
          'revocation',
          'The server has no store that its instances share: a session that is deleted or revoked is over in the process that did it; other instances, and the same one after a restart, take it until it expires.',
          "Give createValise a store, such as store: 'redis://…'; or keep sessions short: sessions: { ttl: '15m' }.",
        ),
      ];
    default:
      return [];
  }
}

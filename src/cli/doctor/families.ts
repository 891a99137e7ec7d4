import { type Finding, ok, warn } from './check.ts';
import type { Seen } from './look.ts';

/** What was seen, by era. */
export type SeenByEra = Partial<Record<'legacy' | 'modern', Seen>>;

const ERAS = ['legacy', 'modern'] as const;

const MEANING = {
  state: [
    'the jar',
    'State that it sets travels with the client.',
    'It sets no state; nothing to do unless you expected a jar.',
  ],
  sessions: [
    'sessions',
    'valise call --session works.',
    'Data-layer sessions are not offered; install Valise on the server with the option sessions.',
  ],
  rounds: [
    'rounds',
    'Its questions survive the death of an instance.',
    'Its questions live in its memory; install Valise on the server to have them carried.',
  ],
} as const;

/** Which families a server offers, and what that means. */
export function checkFamilies(seen: SeenByEra): Finding[] {
  const findings = (['state', 'sessions', 'rounds'] as const).map((family) => {
    const eras = ERAS.filter((era) => offers(seen[era], family));
    const [name, works, missing] = MEANING[family];
    if (eras.length > 0) return ok(name, `Offered in ${eras.join(' and ')}. ${works}`);
    // Where Valise is installed, rounds are announced as soon as there is a flow.
    if (family === 'rounds' && ERAS.some((era) => offers(seen[era], 'state')))
      return ok(name, 'The server has Valise and asks no questions; there is nothing to carry.');
    return warn(name, 'Not offered by this server.', missing);
  });
  return [...findings, ...revocation(seen)];
}

function offers(seen: Seen | undefined, family: keyof typeof MEANING): boolean {
  const announced = seen?.families[family];
  return Array.isArray(announced) ? announced.length > 0 : announced === true;
}

/** What the end of a session means depends on whether its instances can tell each other. */
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

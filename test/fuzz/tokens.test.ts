import { createSealer, generateKey, inspectToken, parseKeys, SealError } from 'mcp-valise/seal';
import { describe, it } from 'vitest';
import { mutateBytes, mutateText } from './mutate.ts';
import type { Random } from './random.ts';
import { fuzz } from './run.ts';

const START = 'v1.12345678.'.length;
// The same in every run, so that a token in the message of a failure can be tried again.
const KEYS = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q,U1bHYd2mKh6p4WuX4cZqX3zAs0t1v2w3x4y5z6A7B8U';
const keys = parseKeys(KEYS);
const sealer = createSealer({ keys, audience: 'shop' });
const packing = createSealer({ keys, audience: 'shop', compressAbove: 0 });
const stranger = createSealer({ keys: generateKey(), audience: 'shop' });
const elsewhere = createSealer({ keys, audience: 'bank' });
const PURPOSES = ['round', 'session', 'state'] as const;
const SUBJECTS = ['ann', 'bob', undefined] as const;
const BINDINGS = [{ id: 1 }, { id: 2 }, undefined] as const;

/** What a token is sealed for, and opened for. */
interface For {
  readonly purpose: string;
  readonly subject?: string;
  readonly bind?: { readonly id: number };
}

function anyFor(random: Random): For {
  const [subject, bind] = [random.pick(SUBJECTS), random.pick(BINDINGS)];
  return { purpose: random.pick(PURPOSES), ...(subject && { subject }), ...(bind && { bind }) };
}

const same = (a: For, b: For) => JSON.stringify(a) === JSON.stringify(b);
const secret = (random: Random) => ({ secret: random.below(1000), text: 'x'.repeat(random.below(300)) });

/** Genuine tokens of all sorts; more of them would only take longer to make. */
function corpus(random: Random) {
  return Array.from({ length: 200 }, () => {
    const made = anyFor(random);
    const by = random.pick([sealer, sealer, packing]);
    return { token: by.seal(secret(random), made), made };
  });
}

/** A token that nobody has sealed, made from those that somebody has. */
function forge(random: Random, tokens: readonly { readonly token: string }[]): string {
  const { token } = random.pick(tokens);
  const body = Buffer.from(token.slice(START), 'base64url');
  const head = token.slice(0, START);
  const other = Buffer.from(random.pick(tokens).token.slice(START), 'base64url');
  switch (random.below(8)) {
    case 0:
    case 1:
      return mutateText(random, token);
    case 2:
    case 3:
      return head + mutateBytes(random, body).toString('base64url');
    case 4: {
      const cut = random.pick([16, 28, body.length - 16, random.below(body.length)]);
      return head + Buffer.concat([body.subarray(0, cut), other.subarray(cut)]).toString('base64url');
    }
    case 5:
      return `v1.${random.pick(keys.kids)}.${body.toString('base64url')}`;
    case 6:
      return (random.chance(0.5) ? stranger : elsewhere).seal({ secret: 1 }, { purpose: 'round' });
    default:
      return token.replace('v1.', random.pick(['v2.', 'V1.', 'v1', 'v1..', '', 'v01.', ' v1.']));
  }
}

describe('a sealer that is given a million forged tokens', () => {
  it('A sealer opens none of a million forged tokens, and refuses each with a SealError', {
    timeout: 1_200_000,
  }, async () => {
    let tokens: ReturnType<typeof corpus> = [];
    let genuine = new Set<string>();
    let from = -1;
    const plan = { name: 'tokens', short: 30_000, soak: 1_300_000, reach: 0.8, reaching: 'were forged' };
    await fuzz(plan, ({ random, batch, input, count, reached }) => {
      const shared = batch(10_000);
      if (shared.at !== from) {
        from = shared.at;
        tokens = corpus(shared.random);
        genuine = new Set(tokens.map(({ token }) => token));
      }
      const { token, made } = random.pick(tokens);
      const wanted = anyFor(random);
      // One in ten is genuine and opened for something else; one in ten of those for what it was made for.
      const isGenuine = random.chance(0.1);
      const given = isGenuine ? token : forge(random, tokens);
      const openedFor = isGenuine && random.chance(0.1) ? made : wanted;
      input({ token: given, openedFor });
      const mayOpen = isGenuine && same(openedFor, made);
      if (!isGenuine && genuine.has(given)) return count('unchanged');
      if (!mayOpen) reached();
      let opened: unknown;
      try {
        opened = sealer.open(given, openedFor);
      } catch (error) {
        if (!(error instanceof SealError)) throw error;
        if (mayOpen) throw new Error(`A genuine token was refused: ${error.code}`);
        look(given);
        return count(error.code);
      }
      if (!mayOpen) throw new Error(`A forged token opened: ${JSON.stringify(opened)}`);
      count('genuine');
    });
  });
});

/** What anybody may look at must not fail otherwise either. */
function look(token: string): void {
  try {
    inspectToken(token);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
  }
}

import { type FetchLike, instrument, type TransportLike } from 'mcp-valise/internal';
import { cut, remark } from '../output/output.ts';
import { type Carried, fingerprintOf, tellCarried } from '../tour/carried.ts';
import { Lanes } from '../tour/lanes.ts';
import { type Step, stepOf } from '../tour/step.ts';
import { watchedFetch } from '../tour/watched-fetch.ts';

const ENDS = { client: 'valise', server: 'server' } as const;
const THERE = { from: ENDS.client, to: ENDS.server };
const BACK = { from: ENDS.server, to: ENDS.client };

/** Draws messages on stderr as they are exchanged. Session ids, tokens and the user's answers are not shown. */
function laneWriter(): (step: Step) => void {
  const columns = process.stderr.columns ?? 100;
  const lanes = new Lanes(Object.values(ENDS), columns);
  remark(lanes.heading());
  return ({ from, to, what, says, carried }) => {
    remark(lanes.arrow(from, to, what));
    const isAnswer = what.endsWith(' again');
    if (says && !isAnswer) remark(lanes.beside(cut(says.replaceAll('\n', ' '), columns - 8)));
    for (const one of carried) remark(lanes.beside(cut(`◆ ${tellCarried(withoutId(one))}`, columns - 8)));
  };
}

/** Replaces a session id with its fingerprint, because anybody who has the id may be able to use the session. */
function withoutId(one: Carried): Carried {
  const isId = one.what === 'Mcp-Session-Id' || one.what === 'session id';
  return isId && typeof one.value === 'string' ? { what: one.what, secret: fingerprintOf(one.value) } : one;
}

/** Returns a `fetch` that draws its messages. */
export function tracedFetch(endpoint: URL, base: FetchLike): FetchLike {
  return watchedFetch(endpoint, ENDS, laneWriter(), base);
}

/** Draws the messages of a stdio transport. */
export function traceTransport(transport: TransportLike): void {
  const draw = laneWriter();
  instrument(
    transport,
    {},
    {
      inbound(message) {
        draw(stepOf(BACK, message));
        return message;
      },
      outbound(message) {
        draw(stepOf(THERE, message));
        return message;
      },
    },
  );
}

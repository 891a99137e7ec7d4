import { DRAFTS, NAMES } from '../wire/names.ts';
import { type Span, skimObject, skipString } from './json-scan.ts';

/**
 * Matches numbers that `JSON.stringify` may print differently: long ones, very small ones, those with an exponent or a
 * trailing decimal zero, and negative zero. It also matches some inside strings, which only costs a closer look.
 */
const DOUBTFUL = /[:[,\s](?:-0(?![.\d])|-?(?:\d[\d.]{15}|0\.0{6}|\d+\.\d*0(?!\d)|[\d.]+[eE]))/;

/** Whether a message may contain jar state with such numbers. This is a quick check. */
export function mayHaveExact(text: string): boolean {
  return text.includes('/state') && DOUBTFUL.test(text);
}

/**
 * Returns the texts of the jar values in a result whose numbers change when parsed, such as 9007199254740993, 1e400 and
 * 1.0: by scope and name, as JSON. Returns undefined if there are none. `message` contains the members of the message.
 */
export function exactState(text: string, message: ReadonlyMap<string, Span>): string | undefined {
  const meta = membersIn(text, membersIn(text, message.get('result'))?.get('_meta'));
  if (!meta) return undefined;
  const found = { session: new Map<string, string>(), server: new Map<string, string>() };
  const modern = membersIn(text, meta.get(NAMES.modern.state.key));
  // This is the order in which they are read: if a peer writes a name in two places, the later place wins.
  const places = [DRAFTS.state, NAMES.legacy.state].map(({ session, server }) => ({
    session: meta.get(session),
    server: meta.get(server),
  }));
  for (const place of [...places, { session: modern?.get('session'), server: modern?.get('server') }]) {
    for (const scope of ['session', 'server'] as const) {
      for (const [name, span] of membersIn(text, place[scope]) ?? []) {
        const exact = exactText(text, span);
        if (exact === undefined) found[scope].delete(name);
        else found[scope].set(name, exact);
      }
    }
  }
  if (found.session.size + found.server.size === 0) return undefined;
  // `Object.fromEntries` defines properties, so that `__proto__` is an ordinary name.
  return JSON.stringify({
    session: Object.fromEntries(found.session),
    server: Object.fromEntries(found.server),
  });
}

function membersIn(text: string, span: Span | undefined): Map<string, Span> | undefined {
  return span && skimObject(text, span.start);
}

/** Returns the text of a value without whitespace if it has a number that printing would change, otherwise undefined. */
function exactText(text: string, { start, end }: Span): string | undefined {
  const parts: string[] = [];
  let isExact = true;
  for (let at = start; at < end; ) {
    const first = text.charAt(at);
    let next = at + 1;
    if (first === '"') next = skipString(text, at);
    else if (first === '-' || (first >= '0' && first <= '9')) {
      while (next < end && IN_NUMBER.includes(text.charAt(next))) next++;
      const number = text.slice(at, next);
      isExact &&= JSON.stringify(Number(number)) === number;
    }
    if (first.trim() !== '') parts.push(text.slice(at, next));
    at = next;
  }
  return isExact ? undefined : parts.join('');
}

const IN_NUMBER = '0123456789.eE+-';

import type { Random } from './random.ts';

/** Texts and numbers that programs stumble over. */
const TEXTS = [
  '',
  ' ',
  '\0',
  '\n',
  '\r\n\r\n',
  '\u2028',
  '\ud800',
  '\ufeff',
  '\u202e',
  '\u001b[2J',
  '__proto__',
  'constructor',
  'toString',
  'then',
  'null',
  '0',
  '-1',
  '../../etc/passwd',
  '%00',
  '[object Object]',
  'v1.',
  'é',
  'a'.repeat(300),
  'A'.repeat(9000),
] as const;
const NUMBERS = [0, -0, -1, 1, 0.5, 1e21, -1e308, 2 ** 31, 2 ** 53, 2 ** 53 + 2, -32000, 999] as const;
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. \n"{}[]:,\\';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** A value that may stand where another one is expected. */
export function oddValue(random: Random, depth = 2): Json {
  switch (random.below(depth > 0 ? 9 : 6)) {
    case 0:
      return null;
    case 1:
      return random.chance(0.5);
    case 2:
    case 3:
      return random.pick(NUMBERS);
    case 4:
    case 5:
      return random.pick(TEXTS);
    case 6:
      return Array.from({ length: random.below(4) }, () => oddValue(random, depth - 1));
    case 7:
      return entries(
        Array.from({ length: random.below(4) }, () => [random.pick(TEXTS), oddValue(random, depth - 1)]),
      );
    default:
      return nested(random.pick([3, 70, 400]), random.chance(0.5));
  }
}

function nested(levels: number, isArray: boolean): Json {
  let value: Json = 1;
  for (let level = 0; level < levels; level++) value = isArray ? [value] : { a: value };
  return value;
}

/** Own properties only: also `__proto__` becomes one. */
function entries(pairs: readonly (readonly [string, Json])[]): { [name: string]: Json } {
  const made: { [name: string]: Json } = {};
  for (const [name, value] of pairs)
    Object.defineProperty(made, name, { value, enumerable: true, writable: true, configurable: true });
  return made;
}

/** The text with one to three changes of letters: some flipped, some left out, some doubled, some added. */
export function mutateText(random: Random, text: string): string {
  let changed = text;
  for (let left = 1 + random.below(3); left > 0; left--) changed = mutateOnce(random, changed);
  return changed;
}

function mutateOnce(random: Random, text: string): string {
  const at = random.below(text.length + 1);
  const to = Math.min(text.length, at + 1 + random.below(8));
  switch (random.below(8)) {
    case 0:
      return text.slice(0, at) + random.pick([...LETTERS]) + text.slice(at + 1);
    case 1:
      return text.slice(0, at) + String.fromCharCode(random.below(0x10000)) + text.slice(at + 1);
    case 2:
      return text.slice(0, at) + text.slice(to);
    case 3:
      return text.slice(0, to) + text.slice(at);
    case 4:
      return text.slice(0, at);
    case 5:
      return text.slice(0, at) + random.pick(TEXTS) + text.slice(at);
    case 6: {
      const other = random.below(text.length + 1);
      const [first = 0, second = 0] = [at, other].sort((a, b) => a - b);
      return text.slice(second) + text.slice(first, second) + text.slice(0, first);
    }
    default: {
      const code = text.charCodeAt(Math.min(at, text.length - 1));
      return Number.isNaN(code)
        ? random.pick(TEXTS)
        : text.slice(0, at) + String.fromCharCode(code ^ (1 << random.below(7))) + text.slice(at + 1);
    }
  }
}

/** The bytes with one to four of them changed, left out, doubled or cut off. */
export function mutateBytes(random: Random, bytes: Buffer): Buffer {
  let changed = Buffer.from(bytes);
  for (let left = 1 + random.below(4); left > 0; left--) {
    const at = random.below(changed.length + 1);
    switch (random.below(6)) {
      case 0:
      case 1:
        if (at < changed.length) changed.writeUInt8(changed.readUInt8(at) ^ (1 << random.below(8)), at);
        break;
      case 2:
        if (at < changed.length) changed.writeUInt8(random.below(256), at);
        break;
      case 3:
        changed = Buffer.concat([changed.subarray(0, at), changed.subarray(at + 1 + random.below(16))]);
        break;
      case 4:
        changed = Buffer.concat([
          changed.subarray(0, at),
          Buffer.from(random.pick(TEXTS)),
          changed.subarray(at),
        ]);
        break;
      default:
        changed = random.chance(0.2)
          ? changed.subarray(0, at)
          : Buffer.concat([changed, changed.subarray(at)]);
    }
  }
  return changed;
}

/** Where a value inside another one is: names and numbers from the outside in. */
type Path = readonly (string | number)[];

/** The JSON value with one to three changes inside. `only` says which places may change, by their path. */
export function mutateJson(random: Random, value: Json, only: (path: Path) => boolean = () => true): Json {
  let changed = value;
  for (let left = 1 + random.below(3); left > 0; left--) {
    const places = placesIn(changed).filter(only);
    if (places.length === 0) return changed;
    changed = replaced(changed, random.pick(places), (old) => other(random, old));
  }
  return changed;
}

const GONE = Symbol('gone');

/** What may stand in a value's place, or {@link GONE} if nothing does. */
function other(random: Random, value: Json): Json | typeof GONE {
  switch (random.below(6)) {
    case 0:
      return GONE;
    case 1:
      return oddValue(random);
    case 2:
      return random.chance(0.5) ? [value] : { a: value };
    default:
      break;
  }
  if (typeof value === 'string') return mutateText(random, value);
  if (typeof value === 'number')
    return random.chance(0.5) ? value + random.pick([-1, 1, 0.5]) : String(value);
  if (Array.isArray(value)) return random.chance(0.5) ? [...value, ...value] : [...value, oddValue(random)];
  if (value === null || typeof value === 'boolean') return random.pick([null, true, false, 'true', 0, {}]);
  const added: readonly [string, Json] = [
    random.chance(0.5) ? random.pick(TEXTS) : mutateText(random, Object.keys(value)[0] ?? 'a'),
    oddValue(random),
  ];
  return entries([...Object.entries(value), added]);
}

function placesIn(value: Json, path: Path = [], found: Path[] = []): Path[] {
  found.push(path);
  if (path.length > 12) return found;
  if (Array.isArray(value)) {
    for (const [at, inner] of value.slice(0, 20).entries()) placesIn(inner, [...path, at], found);
  } else if (value !== null && typeof value === 'object') {
    for (const [name, inner] of Object.entries(value)) placesIn(inner, [...path, name], found);
  }
  return found;
}

function replaced(value: Json, path: Path, change: (old: Json) => Json | typeof GONE): Json {
  const [step, ...rest] = path;
  if (step === undefined) {
    const made = change(value);
    return made === GONE ? null : made;
  }
  if (Array.isArray(value)) {
    return value.flatMap((inner, at) => (at === step ? kept(within(inner, rest, change)) : [inner]));
  }
  return entries(
    Object.entries(value as { [name: string]: Json }).flatMap(([name, inner]) =>
      name === step
        ? kept(within(inner, rest, change)).map((made) => [name, made] as const)
        : [[name, inner] as const],
    ),
  );
}

function within(value: Json, rest: Path, change: (old: Json) => Json | typeof GONE): Json | typeof GONE {
  return rest.length === 0 ? change(value) : replaced(value, rest, change);
}

function kept(value: Json | typeof GONE): Json[] {
  return value === GONE ? [] : [value];
}

/** JSON as a hostile peer may write it: mostly correct, sometimes with letters changed, keys doubled, or numbers out of range. */
export function writeJson(random: Random, value: Json): string {
  const text = JSON.stringify(value);
  if (random.chance(0.85)) return text;
  switch (random.below(4)) {
    case 0:
      return mutateText(random, text);
    case 1:
      return text.replace(/"([^"\\]+)":/, '"$1":1,"$1":');
    case 2:
      return text.replace(
        /:\d+/,
        random.pick([':1e400', ':-0', ':9007199254740993', ':1.0', ':0123', ':NaN']),
      );
    default:
      return random.pick([`\ufeff${text}`, `${text}${text}`, ` ${text} `, `[${text}]`, `[${text},${text}]`]);
  }
}

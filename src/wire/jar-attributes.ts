import { ValiseError } from '../core/errors.ts';
import { type Dict, dict, isObject } from '../core/json.ts';
import type { Meta } from '../core/message.ts';
import { MAX_NAMES, SCOPES, type StateProblem } from './jar.ts';
import { type Era, NAMES, type Scope } from './names.ts';
import { isProblem, type Problem, type ProblemCode } from './problem.ts';

/** How a piece of jar state is stored and sent, beyond its scope. */
export interface Attributes {
  /** Seconds until the client forgets the state, from 1 to {@link MAX_AGE}. */
  readonly maxAge?: number;
  /** The domain the state is valid for, like a cookie's Domain attribute. Never used on stdio. */
  readonly serverScope?: string;
  /** The methods the state is sent with: a prefix that ends at a slash, down to a single tool. */
  readonly methodScope?: string;
}

/** Attributes by scope and name. */
export interface StateAttributes {
  readonly session?: Dict<Attributes>;
  readonly server?: Dict<Attributes>;
}

/** The {@link StateAttributes} read from a peer. Reject state that a problem names; do not keep it forever. */
export interface AttributesReading extends StateAttributes {
  readonly problems?: readonly StateProblem[];
}

/** 400 days in seconds: the largest `max-age`, and the maximum age of state without one. */
export const MAX_AGE = 34_560_000;

/** The rule for each attribute, in words. */
export const ATTRIBUTE_RULES: { readonly [attribute: string]: string } = {
  'max-age': `a whole number of seconds from 1 to ${MAX_AGE}`,
  'server-scope': 'a domain of at most 253 characters',
  'method-scope': 'a method such as "tools" or "tools/call/view_cart", of at most 2048 characters',
};

const KEY = NAMES.modern.state.attributes;
const NOTHING: AttributesReading = Object.freeze({});

/** Checks that a `max-age` is a whole number of seconds from 1 to {@link MAX_AGE}. Returns undefined if it is valid. */
export function checkMaxAge(value: unknown): Problem | undefined {
  if (typeof value !== 'number') return { problem: 'wrong-type', where: 'max-age' };
  if (!Number.isInteger(value) || value < 1 || value > MAX_AGE) {
    return { problem: 'bad-value', where: 'max-age' };
  }
  return undefined;
}

/** Reads the attributes next to jar state in the `_meta` of a result. Unknown attributes are ignored. */
export function readAttributes(meta: unknown): AttributesReading {
  if (!isObject(meta) || meta[KEY] === undefined) return NOTHING;
  const found = meta[KEY];
  const problems: StateProblem[] = [];
  const reading: { session?: Dict<Attributes>; server?: Dict<Attributes> } = {};
  if (!isObject(found)) return { problems: [{ problem: 'wrong-type', where: KEY }] };
  for (const scope of SCOPES) {
    const named = found[scope];
    if (named === undefined) continue;
    const where = `${KEY}.${scope}`;
    const names = isObject(named) ? Object.keys(named) : [];
    if (!isObject(named) || names.length > MAX_NAMES) {
      problems.push({ problem: isObject(named) ? 'too-many' : 'wrong-type', where, scope });
      continue;
    }
    const into = dict<Attributes>();
    for (const name of names) {
      const one = readOne(named[name]);
      if (isProblem(one))
        problems.push({ problem: one.problem, where: `${where}.${one.where}`, scope, name });
      else into[name] = one;
    }
    reading[scope] = into;
  }
  return problems.length > 0 ? { ...reading, problems } : reading;
}

function readOne(value: unknown): Attributes | Problem {
  if (!isObject(value)) return { problem: 'wrong-type', where: 'attributes' };
  const attributes: { -readonly [K in keyof Attributes]: Attributes[K] } = {};
  const { 'max-age': maxAge, 'server-scope': serverScope, 'method-scope': methodScope } = value;
  if (maxAge !== undefined) {
    const problem = checkMaxAge(maxAge);
    if (problem) return problem;
    attributes.maxAge = maxAge as number;
  }
  if (serverScope !== undefined) {
    const problem = checkServerScope(serverScope);
    if (problem) return { problem, where: 'server-scope' };
    attributes.serverScope = (serverScope as string).replace(/^\./, '').toLowerCase();
  }
  if (methodScope !== undefined) {
    const problem = checkMethodScope(methodScope);
    if (problem) return { problem, where: 'method-scope' };
    attributes.methodScope = methodScope as string;
  }
  return attributes;
}

function checkServerScope(value: unknown): ProblemCode | undefined {
  if (typeof value !== 'string') return 'wrong-type';
  return /^\.?[^\s./@?#\\][^\s/@?#\\]{0,252}$/.test(value) ? undefined : 'bad-value';
}

function checkMethodScope(value: unknown): ProblemCode | undefined {
  if (typeof value !== 'string') return 'wrong-type';
  return value.length > 0 && value.length <= 2048 && !value.startsWith('/') ? undefined : 'bad-value';
}

/**
 * Writes attributes into a `_meta` fragment, next to the output of `writeState`. Returns undefined if there are none.
 * Throws for an attribute that a client would reject, so that its author sees the mistake.
 *
 * @example
 * ```ts
 * writeAttributes(era, { server: { profile: { maxAge: 86_400, methodScope: 'tools' } } });
 * ```
 */
export function writeAttributes(
  era: Era,
  attributes: { readonly [S in Scope]?: { readonly [name: string]: Attributes } | undefined },
): Meta | undefined {
  let fragment: Record<string, Dict<Meta>> | undefined;
  for (const scope of SCOPES) {
    const named = attributes[scope];
    if (named === undefined) continue;
    for (const name of Object.keys(named)) {
      const body = attributesBody(name, named[name] ?? {});
      if (body === undefined) continue;
      fragment ??= {};
      fragment[scope] ??= dict();
      fragment[scope][name] = body;
    }
  }
  return fragment && { [NAMES[era].state.attributes]: fragment };
}

/** Throws if a client would reject an attribute of a name. */
export function checkAttributes(name: string, attributes: Attributes): void {
  attributesBody(name, attributes);
}

function attributesBody(name: string, attributes: Attributes): Meta | undefined {
  const { maxAge, serverScope, methodScope } = attributes;
  const body: Record<string, unknown> = {};
  if (maxAge !== undefined) body['max-age'] = maxAge;
  if (serverScope !== undefined) body['server-scope'] = serverScope;
  if (methodScope !== undefined) body['method-scope'] = methodScope;
  const checked = readOne(body);
  if (isProblem(checked)) {
    throw new ValiseError(
      'invalid-argument',
      `The ${checked.where} of state ${JSON.stringify(name)} is invalid.`,
      {
        next: `It must be ${ATTRIBUTE_RULES[checked.where]}.`,
      },
    );
  }
  return Object.keys(body).length > 0 ? body : undefined;
}

import { seconds } from '../../core/duration.ts';
import { isObject, type JsonObject } from '../../core/json.ts';
import type { Params, RpcError } from '../../wire/index.ts';
import type { Peer } from '../peer.ts';
import { FlowError } from './errors.ts';
import { formOf, formSchema } from './form.ts';
import type { FormQuestion, PageQuestion } from './types.ts';

/** A request for the client to answer. */
export interface Question {
  readonly key: string;
  readonly method: string;
  readonly params?: Params;
  /** How long the question may stay open, in seconds. */
  readonly ttl?: number;
  /** Why a model may not answer it. */
  readonly mark?: 'consent' | 'secret';
}

/** Builds the elicitation that a handler asks for. */
export function elicitation(flow: string, key: string, question: FormQuestion | PageQuestion): Question {
  const { message } = question;
  const mark = markOf(question);
  const params: Params =
    'url' in question && question.url !== undefined
      ? { mode: 'url', message, url: question.url, elicitationId: `${flow}.${key}` }
      : {
          message,
          requestedSchema: formSchema(key, 'schema' in question ? formOf(question.schema) : undefined),
        };
  return {
    key,
    method: 'elicitation/create',
    params,
    ...(question.ttl !== undefined && { ttl: seconds(question.ttl) }),
    ...(mark && { mark }),
  };
}

/** What is entered on a page of the author's never passes through a client. */
function markOf(question: FormQuestion | PageQuestion): Question['mark'] {
  if (!('schema' in question) || question.secret) return 'secret';
  return question.consent ? 'consent' : undefined;
}

/** The maximum number of answers in a call. A call that asks forever must not exhaust whoever answers. */
const MOST = 100;

/** Throws if a call that has this many answers may not ask another question. */
export function requireRoom(answers: number, key: string): void {
  if (answers < MOST) return;
  throw new FlowError(
    'limit-reached',
    `The call may not ask "${key}": it has had ${MOST} answers, the most there may be.`,
    { key, next: 'Ask for more in one form, or spread the questions over several calls.' },
  );
}

/**
 * Returns a hash that represents a question in the journal.
 *
 * It detects mistakes in a handler, not attacks, which the seal prevents. A fast hash (cyrb53) is therefore enough.
 */
export function fingerprint({ params }: Question): string {
  const text = params === undefined ? '' : JSON.stringify(params);
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 0x9e3779b1);
    low = Math.imul(low ^ code, 0x5f356495);
  }
  return (4294967296 * (0x1fffff & low) + (high >>> 0)).toString(36);
}

/** The 2026-07-28 error code for a client that lacks a required capability. */
const MISSING_CAPABILITY = -32021;

/** Whether the client has declared the capability that the question needs. */
export function canAnswer({ capabilities }: Peer, question: Question): boolean {
  const needed = neededFor(question);
  return !needed || has(capabilities, needed);
}

/** Throws if the client has not declared the capability that the question needs. Such a client is never sent the question. */
export function requireCapability(peer: Peer, question: Question, byError: boolean): void {
  const needed = neededFor(question);
  if (!needed || has(peer.capabilities, needed)) return;
  const [[family, details]] = Object.entries(needed) as [[string, JsonObject]];
  const named = [family, ...Object.keys(details)].join('.');
  const rpc: RpcError = {
    code: MISSING_CAPABILITY,
    message: `Missing required client capability: ${named}`,
    data: { requiredCapabilities: needed },
  };
  throw new FlowError(
    'client-cannot',
    peer.capabilities
      ? `The client cannot be asked "${question.key}": it has not declared the capability ${named}.`
      : `The client cannot be asked "${question.key}": nothing is known about what it can do.`,
    {
      key: question.key,
      next: peer.capabilities
        ? 'Catch this error and continue without the answer, or use a client that has it.'
        : 'Serve HTTP through valise.http(), so that every instance knows the client.',
      ...(byError && { rpc }),
    },
  );
}

function neededFor({ method, params }: Question): JsonObject | undefined {
  switch (method) {
    case 'elicitation/create':
      return { elicitation: params?.['mode'] === 'url' ? { url: {} } : { form: {} } };
    case 'sampling/createMessage':
      return {
        sampling:
          params?.['tools'] === undefined && params?.['toolChoice'] === undefined ? {} : { tools: {} },
      };
    case 'roots/list':
      return { roots: {} };
    default:
      return undefined;
  }
}

function has(declared: Peer['capabilities'], needed: JsonObject): boolean {
  return Object.entries(needed).every(([family, details]) => {
    const own = declared?.[family];
    if (!isObject(own)) return false;
    // An elicitation capability that names no mode predates modes and means forms.
    if (family === 'elicitation' && Object.keys(own).length === 0)
      return isObject(details) && 'form' in details;
    return Object.keys(details as JsonObject).every((detail) => own[detail] !== undefined);
  });
}

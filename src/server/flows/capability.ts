import { isObject, type JsonObject } from '../../json.ts';
import type { RpcError } from '../../wire/index.ts';
import type { Peer } from '../peer.ts';
import { FlowError } from './errors.ts';
import type { Question } from './question.ts';

/** The 2026-07-28 error code for a client that lacks a required capability. */
const MISSING_CAPABILITY = -32021;

/** Whether the client has declared the capability that the question needs. */
export function canAnswer({ capabilities }: Peer, question: Question): boolean {
  const needed = neededFor(question);
  return !needed || has(capabilities, needed);
}

/** Throws if the client has not declared the capability that the question needs. Such a client is never sent the question. */
export function requireCapability(peer: Peer, question: Question, modern: boolean): void {
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
        ? 'Catch this error and go on without the answer, or use a client that has it.'
        : 'Serve HTTP through valise.http(), so that every instance knows the client.',
      ...(modern && { rpc }),
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

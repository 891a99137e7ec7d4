import type { Id } from '../core/message.ts';

/** The parts of a question id: the flow, the round, and the call. The call is only as trustworthy as the client. */
export interface QuestionId {
  readonly flow: string;
  readonly round: number;
  readonly call: Id | undefined;
}

const ID = /^valise\.([\w-]{22})\.(\d{1,9})(?:\.([\w-]+))?$/;

/** The maximum length of an encoded call id in a question id, in characters. Longer ones are left out. */
const LONGEST_CALL = 256;

/**
 * Returns the id of a question. With it, a server finds a round whose context the client did not send back, and the
 * waiting client if the context cannot be opened. A client with several calls in flight finds the call that the
 * question belongs to.
 */
export function writeQuestionId({ flow, round, call }: QuestionId): string {
  const named = call === undefined ? '' : Buffer.from(JSON.stringify(call)).toString('base64url');
  return `valise.${flow}.${round}${named === '' || named.length > LONGEST_CALL ? '' : `.${named}`}`;
}

/** Parses an id written by {@link writeQuestionId}. */
export function readQuestionId(id: unknown): QuestionId | undefined {
  const match = typeof id === 'string' ? ID.exec(id) : null;
  return match ? { flow: match[1] as string, round: Number(match[2]), call: readCall(match[3]) } : undefined;
}

function readCall(text: string | undefined): Id | undefined {
  if (text === undefined || text.length > LONGEST_CALL) return undefined;
  try {
    const id: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    return typeof id === 'string' || typeof id === 'number' ? id : undefined;
  } catch {
    return undefined;
  }
}

import type { Id } from './message.ts';

/** What the id of a question names: the flow, the round, and the call (which only the client's word stands for). */
export interface QuestionId {
  readonly flow: string;
  readonly round: number;
  readonly call: Id | undefined;
}

const ID = /^valise\.([\w-]{22})\.(\d{1,9})(?:\.([\w-]+))?$/;

/** Longest id of a call, in characters as it is written here, that stands in the ids of its questions. */
const LONGEST_CALL = 256;

/**
 * The id of a question. By it a server finds a round whose context the client did not bring back, and the client that it
 * waits for, where the context that it brought cannot be opened; and a client with several calls under way finds the one
 * that the question belongs to.
 */
export function writeQuestionId({ flow, round, call }: QuestionId): string {
  const named = call === undefined ? '' : Buffer.from(JSON.stringify(call)).toString('base64url');
  return `valise.${flow}.${round}${named === '' || named.length > LONGEST_CALL ? '' : `.${named}`}`;
}

/** Reads what {@link writeQuestionId} has written. */
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

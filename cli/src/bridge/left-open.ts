import { isDeepStrictEqual } from 'node:util';
import type { Pending, PendingRound } from 'mcp-valise/client';
import { isObject, saysTimeout } from 'mcp-valise/internal';
import type { Era } from 'mcp-valise/wire';
import { answersTo, patternOf, wordsOf } from '../ask/question.ts';
import { explain } from '../exit.ts';
import type { ConnectOptions } from '../options.ts';
import { clean, remark, until } from '../output.ts';
import { expiryWords, goOn } from '../pending.ts';
import { type AskingCall, argumentsOf } from './asked-calls.ts';
import type { LeftOpen } from './open-questions.ts';

/** Returns the round in which a call of the host waits: the one that its error names, or the latest of this call. */
export async function roundOf(
  { request, data, inputRequests }: LeftOpen,
  pending: Pending,
): Promise<PendingRound | undefined> {
  const rounds = await pending.list();
  if (!inputRequests) return rounds.find(({ id }) => isObject(data) && data['pending'] === id);
  const { method, params } = request;
  const call = { method, params: argumentsOf(params) };
  const questions = Object.entries(inputRequests).map(([key, asked]) => ({ key, ...(asked as object) }));
  return rounds.findLast(
    (round) =>
      // The stored params of a call that was asked before include its answers.
      isDeepStrictEqual(round.call && { ...round.call, params: argumentsOf(round.call.params) }, call) &&
      isDeepStrictEqual(round.questions, questions),
  );
}

/**
 * Forgets the round of a call that the host cancelled, because nobody waits for its result. If the host only timed out, its
 * user can still answer.
 */
export async function forget(
  { call, inputRequests }: AskingCall,
  reason: unknown,
  pending: Pending,
): Promise<void> {
  if (saysTimeout(reason)) return;
  const request = {
    jsonrpc: '2.0',
    id: 0,
    method: call.method,
    ...(call.params && { params: call.params }),
  } as const;
  try {
    const round = await roundOf({ request, era: 'modern', inputRequests }, pending);
    if (round) await pending.drop(round.id);
  } catch (error) {
    remark(`valise connect: a cancelled call is still among those that wait: ${explain(error)}`);
  }
}

/** Returns the text for the host, and therefore for a model. It contains nothing that could answer in the user's place. */
export function hostWords({ expiresAt }: PendingRound): string {
  const expiry = expiresAt ? `, and the question expires ${until(expiresAt)}` : '';
  return `This call waits for the user, who has to answer a question of the server in a terminal, where Valise lists what is pending; calling again would only ask again${expiry}.`;
}

/** Returns the text for the host's log: the questions, and the command that answers them and continues the call. */
export function waitingWords(
  { id, questions, expiresAt }: PendingRound,
  era: Era,
  options: Partial<ConnectOptions>,
): string {
  // Only a client that speaks the era in which the server asked can answer.
  const command = goOn(id, { ...options, ...(era === 'legacy' && { era }) });
  const { env = [] } = options;
  const needed = [
    ...new Set([...(process.env['VALISE_CLIENT_KEYS'] === undefined ? [] : ['VALISE_CLIENT_KEYS']), ...env]),
  ];
  const fields = questions.flatMap(answersTo);
  return [
    'valise connect: a call needs an answer from the user, and this host has no way to ask.',
    ...questions.map((question) => `The server asks: ${clean(wordsOf(question), 'lines')}`),
    ...fields.map((field) => `  ${clean([patternOf(field), field.description].filter(Boolean).join('   '))}`),
    ...(needed.length === 0
      ? []
      : [`Use a terminal that has the same ${needed.join(' and ')} as this host.`]),
    `${expiryWords(expiresAt)} Answer it with:`,
    `  ${command}${fields.length > 0 ? ' --answer FIELD=VALUE' : ''}`,
  ].join('\n');
}

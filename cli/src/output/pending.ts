import { LEFT_OPEN, type Pending, type PendingQuestion, type PendingRound } from 'mcp-valise/client';
import { type Era, isObject, redactUrls } from 'mcp-valise/internal';
import { answersTo, patternOf, wordsOf } from '../ask/question.ts';
import { followUpOptions } from '../options/follow-up.ts';
import { type ConnectOptions, isLasting } from '../options/options.ts';
import { EXIT, whatOnly } from './exit.ts';
import { clean, printJson, remark, shellWord, until } from './output.ts';

/** Whether the error belongs to a call whose question was left open. */
function isLeftOpen(error: unknown): boolean {
  const { code, rpcCode } = (error ?? {}) as Readonly<Record<string, unknown>>;
  return code === LEFT_OPEN || rpcCode === LEFT_OPEN || code === 'left-open';
}

/**
 * Returns the round that the error of a failed call names. A server may name any id; ids that are not stored are ignored.
 */
export async function pendingIn(error: unknown, pending: Pending): Promise<PendingRound | undefined> {
  const { data } = (error ?? {}) as { readonly data?: unknown };
  return isObject(data) ? findPending(data['pending'], pending) : undefined;
}

/** Returns the round with this id, if it still waits. */
export async function findPending(id: unknown, pending: Pending): Promise<PendingRound | undefined> {
  return (await pending.list()).find((each) => each.id === id);
}

/**
 * Returns the options with which to answer a round. With `auto`, a server of both eras would be reached in the newer one, in
 * which it does not know older rounds.
 */
export function optionsFor<Options extends Pick<ConnectOptions, 'era'>>(
  round: PendingRound,
  options: Options,
): Options {
  return options.era === 'auto' && round.era === 'legacy' ? { ...options, era: round.era } : options;
}

/** Returns the command that continues a round, with the options of this command. */
export function goOn(id: string, options: Partial<ConnectOptions>, target?: string): string {
  const words = [id, ...(target === undefined ? [] : [redactUrls(target)]), ...followUpOptions(options)];
  return ['valise pending answer', ...words.map(shellWord)].join(' ');
}

/**
 * Reports that a call waits for an answer, what the server asks, and how to continue. `why` is the error that kept the
 * answer from the server.
 */
export function tellPending(
  { id, questions, expiresAt }: PendingRound,
  options: Partial<ConnectOptions>,
  { why, target }: { readonly why?: unknown; readonly target?: string | undefined } = {},
): number {
  if (why !== undefined && !isLeftOpen(why)) remark(`valise: ${whatOnly(why)}`);
  const isForgotten = !isLasting(options.store);
  if (options.json) {
    printJson(isForgotten ? { questions } : { pending: id, questions, expiresAt });
    return EXIT.pending;
  }
  for (const question of questions) tellQuestion(question);
  if (isForgotten) {
    remark(`With --store memory: nothing waits for the answer. ${callAgain(questions)}`);
    return EXIT.pending;
  }
  const fields = questions.flatMap(answersTo);
  remark(`The call waits for the answer. ${expiryWords(expiresAt)} Answer it with:`);
  remark(`  ${goOn(id, options, target)}`);
  if (fields.length > 0)
    remark(`It asks you on a terminal; elsewhere add ${fields.map(answerOption).join(' ')}`);
  return EXIT.pending;
}

/**
 * Reports, for the log of a host that cannot be asked, what the server asks and the command that answers it and continues
 * the call.
 */
export function tellUnasked(
  { id, questions, expiresAt }: PendingRound,
  era: Era,
  options: Partial<ConnectOptions>,
): void {
  const { env = [] } = options;
  const keys = process.env['VALISE_CLIENT_KEYS'] === undefined ? [] : ['VALISE_CLIENT_KEYS'];
  const needed = [...new Set([...keys, ...env])].join(' and ');
  // Only a client that speaks the era in which the server asked can answer.
  const command = goOn(id, { ...options, ...(era === 'legacy' && { era }) });
  const answer = questions.flatMap(answersTo).length > 0 ? ' --answer FIELD=VALUE' : '';
  remark('valise connect: a call needs an answer from the user, and this host has no way to ask.');
  for (const question of questions) tellQuestion(question);
  if (needed !== '') remark(`Use a terminal that has the same ${needed} as this host.`);
  remark(`${expiryWords(expiresAt)} Answer it with:`);
  remark(`  ${command}${answer}`);
}

/** Returns a sentence that says how long a question can be answered. */
function expiryWords(expiresAt: Date | undefined): string {
  return expiresAt
    ? `The question expires ${until(expiresAt)}.`
    : 'The server does not say how long the question can be answered.';
}

/** Reports the question of a server that cannot wait for the answer and has given up. */
export function tellUnanswered(question: PendingQuestion | undefined): void {
  if (!question) return;
  tellQuestion(question);
  remark(`This server cannot wait for the answer. ${callAgain([question])}`);
}

function callAgain(questions: readonly PendingQuestion[]): string {
  const answers = questions.flatMap(answersTo).map(answerOption).join(' ');
  return `Call again with ${answers || '--answer FIELD=VALUE'}`;
}

function tellQuestion(question: PendingQuestion): void {
  remark(`The server asks: ${clean(wordsOf(question), 'lines')}`);
  for (const field of answersTo(question))
    remark(`  ${clean([patternOf(field), field.description].filter(Boolean).join('   '))}`);
}

function answerOption({ name }: { readonly name: string }): string {
  return `--answer ${shellWord(`${clean(name)}=…`)}`;
}

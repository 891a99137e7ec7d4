import type { Answers, ClientValise, PendingQuestion, PendingRound } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import { type Continued, isObject } from 'mcp-valise/internal';
import { readLink } from '../../ask/question.ts';
import { argumentsOf } from '../../bridge/shapes.ts';
import { nameOfKept, parseKept } from '../../connection/target.ts';
import type { ConnectOptions } from '../../options/options.ts';
import { optionsFor } from '../../output/pending.ts';
import type { Feed } from '../feed.ts';
import { members, type Routes, text } from '../routes.ts';
import { formOf, readForm } from './form.ts';
import type { Links } from './links.ts';

/** Routes of the screen "Questions". */
export function questionRoutes(
  valise: ClientValise,
  links: Links,
  feed: Feed,
  options: ConnectOptions,
): Routes {
  const find = async (id: string): Promise<PendingRound> => {
    const round = (await valise.pending.list()).find((each) => each.id === id);
    if (round) return round;
    throw new ValiseError('not-found', 'This question is no longer open.', {
      next: 'It was answered elsewhere, dropped, or has expired.',
    });
  };
  return {
    'GET questions': { run: async () => ({ questions: (await valise.pending.list()).map(shownRound) }) },
    'POST questions/answer': {
      writes: true,
      async run(input) {
        const round = await find(text(input, 'id'));
        const action = text(input, 'action');
        const answers = answersOf(round, action, members(input, 'values'));
        if ('problems' in answers) return answers;
        const client = await links.to(parseKept(round.server), optionsFor(round, options));
        const { id } = round;
        try {
          return outcomeOf(await valise.pending.answer(id, answers.answers, { client }));
        } finally {
          feed.changed('questions', 'servers', 'state');
        }
      },
    },
    'POST questions/drop': {
      writes: true,
      async run(input) {
        const dropped = await valise.pending.drop(text(input, 'id'));
        feed.changed('questions', 'servers');
        return { dropped };
      },
    },
  };
}

/** Returns a round for the page, without earlier answers and carried state, which the stored call includes. */
export function shownRound(round: PendingRound): object {
  const { call } = round;
  return {
    id: round.id,
    server: nameOfKept(round.server),
    since: round.since,
    expiresAt: round.expiresAt,
    session: round.session?.label,
    method: call?.method,
    tool: call?.params?.['name'] ?? call?.params?.['uri'],
    arguments: call && argumentsOf(call.params)?.['arguments'],
    questions: round.questions.map(shownQuestion),
  };
}

function shownQuestion({ key, method, params }: PendingQuestion): object {
  const schema = params?.['requestedSchema'];
  return {
    key,
    method,
    message: String(params?.['message'] ?? method),
    ...(params?.['url'] !== undefined && { link: { url: params['url'], ...readLink(params['url']) } }),
    fields: formOf(schema),
    // Sampling and roots are answered by a host; the page can only decline them.
    isForm: method === 'elicitation/create',
  };
}

function answersOf(
  round: PendingRound,
  action: string,
  values: Readonly<Record<string, unknown>>,
): { readonly answers: Answers } | { readonly problems: Record<string, Record<string, string>> } {
  const problems: Record<string, Record<string, string>> = {};
  const answers: Record<string, unknown> = {};
  for (const { key, method, params } of round.questions) {
    if (method !== 'elicitation/create')
      answers[key] = { error: { code: -1, message: 'The user rejected the request.' } };
    else if (action !== 'accept') answers[key] = { action: 'decline' };
    else {
      const filled = readForm(params?.['requestedSchema'], members(values, key));
      if ('problems' in filled) problems[key] = filled.problems;
      else answers[key] = { action: 'accept', content: filled.content };
    }
  }
  return Object.keys(problems).length > 0 ? { problems } : { answers };
}

/** Returns the result of the call, or the next question. */
function outcomeOf(next: Continued): object {
  if (!next.done) return { next: shownRound(next.round) };
  const { _meta, ...result } = next.result;
  return { result: isObject(result) ? result : {} };
}

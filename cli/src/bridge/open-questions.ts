import { isDeepStrictEqual } from 'node:util';
import { LEFT_OPEN, type Pending, type PendingRound } from 'mcp-valise/client';
import {
  CORE,
  type Era,
  eraOf,
  INPUT_METHODS,
  isObject,
  isRequest,
  type Message,
  type Notification,
  type Params,
  type Request,
  type Response,
  readAnnounced,
  saysTimeout,
} from 'mcp-valise/internal';
import { explain } from '../output/exit.ts';
import { remark, until } from '../output/output.ts';
import { argumentsOf } from './shapes.ts';
import type { AskingCall, Done, Server } from './translation.ts';

/** Options of {@link OpenQuestions}. */
export interface OpenQuestionsOptions {
  readonly server: Server & {
    /** Ends the transport session that `initialize` started, so that `initialize` can be sent again. */
    restart(): Promise<void>;
  };
  /** Receives the messages of the server that are for the host. */
  receive(message: Message): void;
  readonly pending: Pending;
  /** Tells people, but not the host, what the server asks and how to answer. */
  tell(round: PendingRound, era: Era): void;
}

/**
 * Sits in front of a server for a host that cannot be asked. Questions of the server stay open for `valise pending`, and the
 * host learns that its call waits. In the older era, only servers that can wait for an answer are told that they may ask; in
 * the newer era, every server can wait.
 */
export class OpenQuestions implements Server {
  readonly #options: OpenQuestionsOptions;
  /** The capabilities that a host of the older era declared. */
  #capabilities: unknown;

  constructor(options: OpenQuestionsOptions) {
    this.#options = options;
  }

  request(request: Request, done: Done): void {
    const { method, params } = request;
    if (method === 'initialize') {
      this.#initialize(request, done);
      return;
    }
    const isModern = eraOf(request) === 'modern';
    const capabilities = isModern ? params?._meta?.[CORE.clientCapabilities] : this.#capabilities;
    const { server } = this.#options;
    if (!INPUT_METHODS.includes(method) || canBeAsked(capabilities)) {
      server.request(request, done);
      return;
    }
    const _meta = { ...params?._meta, [CORE.clientCapabilities]: withForms(capabilities) };
    const asked = isModern ? { ...request, params: { ...params, _meta } } : request;
    server.request(asked, (response, failure) => {
      if (!leavesOpen(capabilities, response)) done(response, failure);
      else void this.#leave(request, response).then((waiting) => done(waiting ?? response, failure));
    });
  }

  notify(message: Notification | Response): Promise<void> {
    return this.#options.server.notify(message);
  }

  /** Handles a message of the server. */
  fromServer(message: Message): void {
    if (isRequest(message) && isUnaskable(this.#capabilities, message)) {
      // Servers that cannot wait receive this text.
      const error = { code: LEFT_OPEN, message: 'The host cannot be asked.' };
      void this.notify({ jsonrpc: '2.0', id: message.id, error });
    } else this.#options.receive(message);
  }

  /** Sends `initialize` again with form support if the server can wait for answers, so that it may ask. */
  #initialize(request: Request, done: Done): void {
    const { server } = this.#options;
    this.#capabilities = request.params?.['capabilities'] ?? {};
    server.request(request, (response, failure) => {
      const waits = 'result' in response && readAnnounced(response.result['capabilities']).rounds.length > 0;
      if (!waits || canBeAsked(this.#capabilities)) return done(response, failure);
      const params: Params = { ...request.params, capabilities: withForms(this.#capabilities) };
      void server.restart().then(() => server.request({ ...request, params }, done));
    });
  }

  /** Returns the response for the host of a call that waits. Returns undefined if its question is not stored. */
  async #leave(request: Request, response: Response): Promise<Response | undefined> {
    const { pending, tell } = this.#options;
    const round = await findPending(request, response, pending).catch(() => undefined);
    if (!round) return undefined;
    const era = eraOf(request);
    tell(round, era);
    const text = waitingText(round);
    const { id, method } = request;
    if (method !== 'tools/call') return { jsonrpc: '2.0', id, error: { code: LEFT_OPEN, message: text } };
    // Models read results, not errors.
    const content = [{ type: 'text', text }];
    const resultType = era === 'modern' ? { resultType: 'complete' } : {};
    return { jsonrpc: '2.0', id, result: { content, isError: true, ...resultType } };
  }
}

/** Forgets the pending question of a call that the host cancelled. If the host only timed out, its user can still answer. */
export async function forgetPending(
  { call, inputRequests }: AskingCall,
  reason: unknown,
  pending: Pending,
): Promise<void> {
  if (saysTimeout(reason)) return;
  try {
    const round = await pendingOf(call, inputRequests, pending);
    if (round) await pending.drop(round.id);
  } catch (error) {
    remark(`valise connect: a cancelled call is still among those that wait: ${explain(error)}`);
  }
}

/** Returns the pending question of a call: the one that its error names, or the latest of this call. */
async function findPending(
  call: Request,
  response: Response,
  pending: Pending,
): Promise<PendingRound | undefined> {
  if ('result' in response)
    return pendingOf(call, response.result['inputRequests'] as AskingCall['inputRequests'], pending);
  const { data } = response.error;
  return (await pending.list()).find(({ id }) => isObject(data) && data['pending'] === id);
}

async function pendingOf(
  { method, params }: AskingCall['call'],
  inputRequests: AskingCall['inputRequests'],
  pending: Pending,
): Promise<PendingRound | undefined> {
  const call = { method, params: argumentsOf(params) };
  const questions = Object.entries(inputRequests).map(([key, asked]) => ({ key, ...(asked as object) }));
  return (await pending.list()).findLast(
    (round) =>
      // The stored params of a call that was asked before include its answers.
      isDeepStrictEqual(round.call && { ...round.call, params: argumentsOf(round.call.params) }, call) &&
      isDeepStrictEqual(round.questions, questions),
  );
}

/** Returns the text for the host, and therefore for a model. It contains nothing that could answer in the user's place. */
function waitingText({ expiresAt }: PendingRound): string {
  const expiry = expiresAt ? `, and the question expires ${until(expiresAt)}` : '';
  return `This call waits for the user, who has to answer a question of the server in a terminal, where Valise lists what is pending; calling again would only ask again${expiry}.`;
}

/** Whether a host declares that it can show forms (or URLs). A host that names no mode predates modes and supports forms. */
function canBeAsked(capabilities: unknown, mode: 'form' | 'url' = 'form'): boolean {
  const elicitation = isObject(capabilities) ? capabilities['elicitation'] : undefined;
  if (!isObject(elicitation)) return false;
  if (Object.keys(elicitation).length === 0) return mode === 'form';
  return isObject(elicitation[mode]);
}

/** Adds form support to a host's capabilities on its behalf. */
function withForms(capabilities: unknown): Record<string, unknown> {
  const own = isObject(capabilities) ? capabilities : {};
  const elicitation = isObject(own['elicitation']) ? own['elicitation'] : {};
  return { ...own, elicitation: { ...elicitation, form: {} } };
}

/** Whether a host with these capabilities cannot be asked this question. */
function isUnaskable(capabilities: unknown, question: unknown): boolean {
  if (!isObject(question) || question['method'] !== 'elicitation/create') return false;
  const { params } = question;
  return !canBeAsked(capabilities, isObject(params) && params['mode'] === 'url' ? 'url' : 'form');
}

/** Whether a response leaves a question open that a host with these capabilities cannot answer. */
function leavesOpen(capabilities: unknown, response: Response): boolean {
  if ('error' in response) return response.error.code === LEFT_OPEN;
  const { resultType, inputRequests } = response.result;
  if (resultType !== 'input_required' || !isObject(inputRequests)) return false;
  return Object.values(inputRequests).some((question) => isUnaskable(capabilities, question));
}

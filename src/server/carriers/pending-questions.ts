import { randomBytes } from 'node:crypto';
import { isObject, type JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import type { Answer, Params } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { type Answered, type Continuation, callOf, principalDigest } from '../flows/continuation.ts';
import type { Question } from '../flows/question.ts';
import type { FlowRecords } from '../flows/records.ts';
import type { Caller } from '../quota.ts';

/** A question that is not answered by the client that it is for, as it is stored. */
export interface PendingQuestion {
  readonly continuation: Continuation;
  readonly key: string;
  readonly params: Params;
  /** The secret in the link. Whoever has it may answer. */
  readonly token: string;
  /** Why a model may not answer it. */
  readonly mark?: 'consent' | 'secret';
  readonly answer?: JsonObject;
}

/** A pending question with the place where it is stored. */
export interface FoundQuestion {
  readonly at: string;
  readonly version: string;
  readonly question: PendingQuestion;
}

/** How much longer than its round a question is stored, in seconds. */
const SLACK = 240;

/**
 * Questions to users whose clients cannot be asked.
 *
 * Each is stored under what carries the state of its call, so that a repeated call continues from the answer.
 */
export class PendingQuestions {
  readonly #records: FlowRecords;

  constructor(records: FlowRecords) {
    this.#records = records;
  }

  /** Returns where the question of a call is stored, or undefined if nothing tells the call from those of others. */
  placeOf({ carrier, request }: Exchange): string | undefined {
    const owner = carrier.principal ?? carrier.thread;
    if (owner === null || carrier.store === undefined) return undefined;
    try {
      return `rounds/open/${sha256(canonicalJson([owner, callOf(request)]))}`;
    } catch {
      // The arguments are nested too deeply to be compared.
      return undefined;
    }
  }

  /** Returns the round that a call continues, with its answer if it has one. */
  async find(exchange: Exchange): Promise<Answered | undefined> {
    const at = exchange.carrier.isNew ? undefined : this.placeOf(exchange);
    const found = at === undefined ? undefined : await this.#read(at);
    if (!found) return undefined;
    const { continuation, key, answer } = found.question;
    const answers = new Map<string, Answer>(answer ? [[key, { result: answer }]] : []);
    return { continuation, answers };
  }

  /** Stores a question. Returns the secret for its answer, which stays the same while the same question is open. */
  async ask(
    exchange: Exchange,
    { key, params = {}, mark }: Question,
    continuation: Continuation,
    ttl: number,
  ): Promise<string> {
    const at = this.placeOf(exchange) as string;
    await exchange.carrier.begin?.();
    const { caller } = exchange;
    const found = await this.#read(at);
    // An answer that has just come is for the next call to find.
    if (found?.question.answer && found.question.key === key) return found.question.token;
    const isSame = found?.question.key === key && found.question.continuation.f === continuation.f;
    const token = isSame ? found.question.token : randomBytes(16).toString('base64url');
    const u = principalDigest(exchange.principal);
    const kept: PendingQuestion = {
      continuation: { ...continuation, ...(u !== undefined && { u }) },
      key,
      params,
      token,
      ...(mark && { mark }),
    };
    const options = { ttl: ttl + SLACK, caller };
    await this.#records.put(at, kept, { ...options, ...(found && { ifVersion: found.version }) });
    await this.#records.put(pageKey(token), { at }, options);
    return token;
  }

  /** Returns the question that a secret is for, or undefined if it is over. */
  async look(token: string): Promise<FoundQuestion | undefined> {
    if (!/^[\w-]{22}$/.test(token)) return undefined;
    const at = (await this.#records.get(pageKey(token)))?.value?.['at'];
    const found = typeof at === 'string' ? await this.#read(at) : undefined;
    return found?.question.token === token ? found : undefined;
  }

  /** Stores the answer. Returns false if the question has been answered or replaced in the meantime. */
  async answer({ at, version, question }: FoundQuestion, answer: JsonObject): Promise<boolean> {
    if (question.answer) return false;
    const ttl = Math.max(1, question.continuation.e - Math.floor(Date.now() / 1000)) + SLACK;
    const caller: Caller = {
      name: question.continuation.u,
      isAnonymous: question.continuation.u === undefined,
    };
    const kept: PendingQuestion = { ...question, answer };
    return (await this.#records.put(at, kept, { ttl, caller, ifVersion: version })) !== undefined;
  }

  /** Removes the question of a call that is over. */
  async close(exchange: Exchange): Promise<void> {
    const at = this.placeOf(exchange);
    const found = at === undefined ? undefined : await this.#read(at);
    if (!found) return;
    await this.#records.delete(found.at, { ifVersion: found.version });
    await this.#records.delete(pageKey(found.question.token));
  }

  async #read(at: string): Promise<FoundQuestion | undefined> {
    const found = await this.#records.get(at);
    if (!found || !isObject(found.value)) return undefined;
    const question = found.value as unknown as PendingQuestion;
    return Date.now() / 1000 < question.continuation.e ? { at, version: found.version, question } : undefined;
  }
}

function pageKey(token: string): string {
  return `rounds/page/${sha256(token)}`;
}

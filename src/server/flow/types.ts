import type { Duration } from '../../duration.ts';
import type { AnswerOf, AskSchema } from './form.ts';

/** A question to the user: a form to fill in. */
export interface FormQuestion<Schema extends AskSchema = AskSchema> {
  readonly message: string;
  /**
   * What the form asks for: an object of plain fields, as elicitation allows them. As JSON Schema, or as a schema of zod,
   * valibot, arktype or another library with Standard Schema, which then checks the answer and may transform it.
   */
  readonly schema: Schema;
  /** `throw` (the default): a refusal is an `ask-declined` or `ask-cancelled` error. `value`: it is returned. */
  readonly refusal?: 'throw' | 'value';
  /** How long this question may stay open, where that differs from the flow's own `ttl`. */
  readonly ttl?: Duration;
}

/** A question to the user: a page to visit, for what must not pass through the client (a password, a payment). */
export interface PageQuestion {
  readonly message: string;
  readonly url: string;
  readonly refusal?: 'throw' | 'value';
  readonly ttl?: Duration;
}

/** What a user did with a question, where a refusal is not an error. */
export type Reaction<Content> =
  | { readonly action: 'accept'; readonly content: Content }
  | { readonly action: 'decline' | 'cancel' };

/** What a flow's effect is told. */
export interface Effect {
  /** The same on every attempt of this effect in this flow, and no other: hand it to what the effect calls. */
  readonly idempotencyKey: string;
  /** 1, or more where earlier attempts were cut off. */
  readonly attempt: number;
}

/** How an effect is done once. */
export interface OnceOptions {
  /**
   * What to do where an earlier attempt was cut off in the middle (its process died), so that nobody knows whether it
   * took effect: `fail` with `once-cut-off` (the default), or `retry` with the same idempotency key.
   */
  readonly cutOff?: 'fail' | 'retry';
}

/** How long and how often a flow looks for something that others do. */
export interface UntilOptions {
  /** Between two looks (2 s by default). */
  readonly every?: Duration;
  /** How long one round keeps looking before it goes back to the client as "still waiting" (20 s by default). */
  readonly hold?: Duration;
}

/** A handler's dialogue with the client. Every step has a key of its own, which stays the same from round to round. */
export interface Flow<Extra = unknown> {
  /** The same on every round of this call, on whichever instance. */
  readonly id: string;
  /** What the SDK gives to handlers: `extra` in v1, `ctx` in v2. */
  readonly extra: Extra;
  /**
   * Asks the user.
   *
   * @example
   * ```ts
   * const { resolution } = await flow.ask('resolution', {
   *   message: 'How was this bug resolved?',
   *   schema: {
   *     type: 'object',
   *     properties: { resolution: { type: 'string', enum: ['Fixed', 'Duplicate'] } },
   *     required: ['resolution'],
   *   },
   * });
   * ```
   */
  ask<const Schema extends AskSchema>(
    key: string,
    question: FormQuestion<Schema> & { readonly refusal: 'value' },
  ): Promise<Reaction<AnswerOf<Schema>>>;
  ask<const Schema extends AskSchema>(key: string, question: FormQuestion<Schema>): Promise<AnswerOf<Schema>>;
  ask(key: string, question: PageQuestion & { readonly refusal: 'value' }): Promise<Reaction<undefined>>;
  ask(key: string, question: PageQuestion): Promise<undefined>;
  /**
   * Asks the user to agree: true if they accept, false if they decline or close the question.
   *
   * @example
   * ```ts
   * if (await flow.confirm('sure', `Delete ${path}?`)) await flow.once('delete', () => disk.delete(path));
   * ```
   */
  confirm(key: string, message: string): Promise<boolean>;
  /**
   * Asks the user to choose one of some options. A refusal is an error, as with `ask`.
   *
   * @example
   * ```ts
   * const size = await flow.choose('size', 'Which size?', ['S', 'M', 'L']);
   * ```
   */
  choose<const Option extends string>(
    key: string,
    message: string,
    options: readonly Option[],
  ): Promise<Option>;
  /** Whether this client can be asked to fill in a form: handlers may have another way for those that cannot. */
  canAsk(): boolean;
  /** Asks the client's model: the params of `sampling/createMessage`, and its result. */
  sample(key: string, params: { readonly [name: string]: unknown }): Promise<Sample>;
  /** Asks for the client's roots. */
  roots(key?: string): Promise<readonly Root[]>;
  /**
   * Does something that must not be done again on the next round, and returns what it returned the first time.
   * With a store the effect is claimed before it runs and never completed twice; without one, what has been done is
   * remembered from the next question on.
   *
   * @example
   * ```ts
   * const order = await flow.once('order', ({ idempotencyKey }) => shop.order(cart, { idempotencyKey }));
   * ```
   */
  once<Value>(
    key: string,
    effect: (effect: Effect) => Value | Promise<Value>,
    options?: OnceOptions,
  ): Promise<Value>;
  /**
   * Waits for something that somebody else does, an approval say, for as long as it takes: looks again and again, and
   * between the looks the call goes back to the client as "still waiting". `undefined` means: not yet.
   */
  until<Value>(
    key: string,
    look: () => Value | undefined | Promise<Value | undefined>,
    options?: UntilOptions,
  ): Promise<Value>;
  /** Tells how far the work is, where the client wants to know. Says nothing while earlier rounds are replayed. */
  progress(progress: number, total?: number, message?: string): Promise<void>;
}

/** A root of the client. */
export interface Root {
  readonly uri: string;
  readonly name?: string;
}

/** What the client's model said. */
export interface Sample {
  readonly role: 'user' | 'assistant';
  readonly content: unknown;
  readonly model: string;
  readonly stopReason?: string;
  readonly [name: string]: unknown;
}

/** Kinds of questions. */
export type QuestionKind = 'ask' | 'sample' | 'roots';

/** Settings of a flow. */
export interface FlowOptions {
  /** Raise it when a change to the handler changes its questions: flows begun by another version then end or start over. */
  readonly version?: string | number;
  /** What happens to a flow that another version began: it ends with an error (the default), or starts over. */
  readonly otherVersion?: 'fail' | 'restart';
  /**
   * How long a round may stay open (10 minutes by default). What is answered within a minute after that is still taken,
   * since the clocks of instances differ; where a question is waited for in memory, nothing is.
   */
  readonly ttl?: Duration;
  /** For how long a round that gets no answer may be renewed. Without it the round ends with its `ttl`. */
  readonly renew?: Duration;
  /** Longest context, in bytes, that travels through the client (48 KiB by default). */
  readonly budget?: number;
  /** Questions that this flow waits for in memory wherever the connection allows it, instead of carrying them. */
  readonly wait?: readonly QuestionKind[];
  /** Where contexts are kept, where it differs from the server's own setting. */
  readonly mode?: RoundMode;
}

/**
 * Where the context of a round is kept.
 *
 * - `stored`: in the store; what travels only names it
 * - `dual`: in both; the store counts, and what travelled is compared with it
 * - `carried-first`: in both; what travelled counts, and the store serves clients that bring nothing back
 * - `carried`: it travels, and nothing is kept
 */
export type RoundMode = 'stored' | 'dual' | 'carried-first' | 'carried';

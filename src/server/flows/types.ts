import type { Duration } from '../../core/duration.ts';
import type { AnswerOf, AskSchema } from './form.ts';

/** A question to the user that is a form to fill in. */
export interface FormQuestion<Schema extends AskSchema = AskSchema> {
  readonly message: string;
  /**
   * The fields of the form: an object of plain fields, as elicitation allows them.
   *
   * Give JSON Schema, or a schema of zod, valibot, arktype or another library with Standard Schema. Such a library then checks
   * the answer and may transform it.
   */
  readonly schema: Schema;
  /**
   * `throw` (the default) throws `ask-declined` or `ask-cancelled` if the user refuses. `value` returns the refusal instead.
   */
  readonly refusal?: 'throw' | 'value';
  /** How long this question may stay open, if that differs from the flow's own `ttl`. */
  readonly ttl?: Duration;
  /** Whether the answer is the user's consent, so that a model may never give it. `flow.confirm` always asks for consent. */
  readonly consent?: boolean;
  /** Whether the answer is a secret, so that it may never pass through a model. */
  readonly secret?: boolean;
}

/** A question to the user that is a page to visit, for data that must not pass through the client (a password, a payment). */
export interface PageQuestion {
  readonly message: string;
  readonly url: string;
  readonly refusal?: 'throw' | 'value';
  readonly ttl?: Duration;
}

/** The user's reaction to a question whose `refusal` is `value`. */
export type Reaction<Content> =
  | { readonly action: 'accept'; readonly content: Content }
  | { readonly action: 'decline' | 'cancel' };

/** The argument that a flow's effect receives. */
export interface Effect {
  /**
   * A key that is the same on every attempt of this effect, and only of this effect in this flow. Pass it to the service you
   * call.
   */
  readonly idempotencyKey: string;
  /** 1, or more if earlier attempts were cut off. */
  readonly attempt: number;
}

/** Options of `flow.once`. */
export interface OnceOptions {
  /**
   * What to do if an earlier attempt was cut off (its process died), so that it is unknown whether it took effect.
   *
   * `fail` (the default) throws `outcome-unknown`. `retry` runs the effect again with the same idempotency key.
   */
  readonly cutOff?: 'fail' | 'retry';
}

/** Options of `flow.until`. */
export interface UntilOptions {
  /** The time between two checks (2 s by default). */
  readonly every?: Duration;
  /** How long one round keeps checking before it returns to the client as "still waiting" (20 s by default). */
  readonly hold?: Duration;
}

/** A handler's dialogue with the client. Every step has its own key, which stays the same from round to round. */
export interface Flow<Extra = unknown> {
  /** The flow's id, which is the same on every round of this call, on every instance. */
  readonly id: string;
  /** The argument that the SDK gives to handlers: `extra` in v1, `ctx` in v2. */
  readonly extra: Extra;
  /**
   * Asks the user a question, and returns the answer.
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
   * Asks the user to agree. Returns true if they accept, false if they decline or close the question.
   *
   * @example
   * ```ts
   * if (await flow.confirm('sure', `Delete ${path}?`)) await flow.once('delete', () => disk.delete(path));
   * ```
   */
  confirm(key: string, message: string): Promise<boolean>;
  /**
   * Asks the user to choose one of several options. A refusal is an error, as with `ask`.
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
  /** Whether this client can be asked to fill in a form. A handler may offer an alternative to clients that cannot. */
  canAsk(): boolean;
  /** Asks the client's model. Takes the params of `sampling/createMessage` and returns its result. */
  sample(key: string, params: { readonly [name: string]: unknown }): Promise<Sample>;
  /** Asks for the client's roots. */
  roots(key?: string): Promise<readonly Root[]>;
  /**
   * Runs an effect that must not be repeated on the next round, and returns what it returned the first time.
   *
   * With a store, the effect is claimed before it runs and never completed twice. Without one, completed effects are remembered
   * from the next question on.
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
   * Waits for something that somebody else does, for example an approval, for as long as it takes.
   *
   * It calls `look` repeatedly until the result is not `undefined`. From time to time the call returns to the client as "still
   * waiting".
   */
  until<Value>(
    key: string,
    look: () => Value | undefined | Promise<Value | undefined>,
    options?: UntilOptions,
  ): Promise<Value>;
  /** Reports progress, if the client has asked for it. Sends nothing while earlier rounds are replayed. */
  progress(progress: number, total?: number, message?: string): Promise<void>;
}

/** A root of the client. */
export interface Root {
  readonly uri: string;
  readonly name?: string;
}

/** The response of the client's model. */
export interface Sample {
  readonly role: 'user' | 'assistant';
  readonly content: unknown;
  readonly model: string;
  readonly stopReason?: string;
  readonly [name: string]: unknown;
}

/** The kinds of questions. */
export type QuestionKind = 'ask' | 'sample' | 'roots';

/** Options of a flow. */
export interface FlowOptions {
  /** The handler's version. Raise it when its questions change: flows begun by another version then fail or start over. */
  readonly version?: string | number;
  /**
   * What happens to a flow that another version began: `fail` ends it with an error (the default), `restart` starts it over.
   */
  readonly otherVersion?: 'fail' | 'restart';
  /**
   * How long a round may stay open (10 minutes by default).
   *
   * Answers are accepted for one more minute, since the clocks of instances differ. A question that is waited for in memory
   * gets no such extra time.
   */
  readonly ttl?: Duration;
  /** For how long a round that gets no answer may be renewed. If omitted, the round ends with its `ttl`. */
  readonly renew?: Duration;
  /** The longest context, in bytes, that travels through the client (48 KiB by default). */
  readonly budget?: number;
  /** The kinds of questions that this flow waits for in memory, if the connection allows it, instead of carrying them. */
  readonly wait?: readonly QuestionKind[];
  /** Where contexts are stored, if that differs from the server's own setting. */
  readonly mode?: FlowMode;
}

/**
 * Where the context of a round is stored.
 *
 * - `stored`: in the store; the client carries only a reference
 * - `dual`: in both; the store is authoritative, and what the client carried is compared with it
 * - `carried-first`: in both; what the client carried is authoritative, and the store serves clients that send nothing back
 * - `carried`: the client carries it, and nothing is stored
 */
export type FlowMode = 'stored' | 'dual' | 'carried-first' | 'carried';

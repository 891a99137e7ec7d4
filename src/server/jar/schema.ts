import { ValiseError } from '../../core/errors.ts';

/** The part of Standard Schema that Valise uses. zod, valibot, arktype and others implement it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** A schema of an object with any keys. */
export type ObjectSchema = StandardSchema<object>;

/** The result of validating a value. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One reason why a value does not fit. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The input type of a schema. */
export type InputOf<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>['input'];

/** The output type of a schema. */
export type OutputOf<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>['output'];

/** Throws if a schema is not a Standard Schema, so that it fails where it is declared and not in some request. */
export function checkSchema(schema: unknown, name: string): void {
  const standard = (schema as { readonly '~standard'?: { readonly validate?: unknown } } | null)?.[
    '~standard'
  ];
  if (typeof standard?.validate === 'function') return;
  throw new ValiseError(
    'invalid-schema',
    `The schema of state ${JSON.stringify(name)} is no Standard Schema.`,
    {
      next: 'Give one of zod, valibot, arktype or another library that has "~standard".',
    },
  );
}

/**
 * Validates synchronously.
 *
 * State is read and written synchronously, so an asynchronous schema cannot be used. A value on which the schema throws does
 * not fit. The message of such an error is not reported, since it may repeat the value.
 */
export function validate(schema: StandardSchema, name: string, value: unknown): SchemaResult<unknown> {
  let result: ReturnType<StandardSchema['~standard']['validate']>;
  try {
    result = schema['~standard'].validate(value);
  } catch {
    return { issues: [{ message: 'it could not be read' }] };
  }
  if (!(result instanceof Promise)) return result;
  // The result is ignored; a rejection must not end the process.
  result.catch(() => undefined);
  // zod retries asynchronously if something throws, so the two cases cannot be told apart.
  throw new ValiseError(
    'invalid-schema',
    `The schema of state ${JSON.stringify(name)} gives no answer at once: it validates asynchronously, or one of its checks or transforms has thrown.`,
    {
      next: 'Give a schema without asynchronous checks or transforms, and report what does not fit as an issue.',
    },
  );
}

/** Returns where and why a value does not fit, without the value itself. */
export function issuesText(issues: readonly SchemaIssue[]): string {
  return issues
    .slice(0, 3)
    .map(({ path, message }) => {
      const at = path?.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
      return at ? `${at}: ${message}` : message;
    })
    .join('; ');
}

import { useId } from 'preact/hooks';
import type { Field } from './types.ts';
import { Text } from './ui.tsx';

/** What was typed, by field. */
export type Typed = Readonly<Record<string, unknown>>;

/** The values that a form starts with. */
export function initialOf(fields: readonly Field[]): Typed {
  return Object.fromEntries(
    fields.flatMap(({ name, initial, type }) =>
      initial === undefined ? [] : [[name, type === 'json' ? JSON.stringify(initial) : initial]],
    ),
  );
}

/** The fields of a question or of a tool. */
export function Fields({
  fields,
  typed,
  problems,
  onChange,
}: {
  readonly fields: readonly Field[];
  readonly typed: Typed;
  readonly problems: Readonly<Record<string, string>>;
  readonly onChange: (typed: Typed) => void;
}) {
  return (
    <>
      {fields.map((field) => (
        <Control
          key={field.name}
          field={field}
          value={typed[field.name]}
          problem={problems[field.name]}
          onChange={(value) => onChange({ ...typed, [field.name]: value })}
        />
      ))}
    </>
  );
}

function Control({
  field,
  value,
  problem,
  onChange,
}: {
  readonly field: Field;
  readonly value: unknown;
  readonly problem: string | undefined;
  readonly onChange: (value: unknown) => void;
}) {
  const id = useId();
  const help = `${id}-help`;
  const wrong = `${id}-problem`;
  const described = [field.description && help, problem && wrong].filter(Boolean).join(' ') || undefined;
  const common = {
    id,
    'aria-describedby': described,
    'aria-invalid': problem === undefined ? undefined : ('true' as const),
    'aria-required': field.required,
  };
  return (
    <div class="field">
      {field.type === 'array' && field.choices ? (
        <span class="field-label" id={id}>
          <Text>{field.title}</Text> {!field.required && <span class="quiet">optional</span>}
        </span>
      ) : (
        <label for={id}>
          <Text>{field.title}</Text> {!field.required && <span class="quiet">optional</span>}
        </label>
      )}
      {field.description && (
        <p class="field-help" id={help}>
          <Text>{field.description}</Text>
        </p>
      )}
      <Input field={field} value={value} common={common} onChange={onChange} />
      {problem && (
        <p class="field-problem" id={wrong} role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}

function Input({
  field,
  value,
  common,
  onChange,
}: {
  readonly field: Field;
  readonly value: unknown;
  readonly common: { readonly id: string; readonly 'aria-describedby': string | undefined };
  readonly onChange: (value: unknown) => void;
}) {
  const text = value === undefined ? '' : String(value);
  const read = (event: Event): void => onChange((event.currentTarget as HTMLInputElement).value);
  if (field.type === 'array' && field.choices) {
    const chosen = Array.isArray(value) ? value.map(String) : [];
    return (
      <div
        class="choices"
        role="group"
        aria-labelledby={common.id}
        aria-describedby={common['aria-describedby']}
      >
        {field.choices.map((choice) => (
          <label key={choice.value} class="choice">
            <input
              type="checkbox"
              checked={chosen.includes(choice.value)}
              onChange={({ currentTarget }) =>
                onChange(
                  currentTarget.checked
                    ? [...chosen, choice.value]
                    : chosen.filter((each) => each !== choice.value),
                )
              }
            />
            <Text>{choice.label}</Text>
          </label>
        ))}
      </div>
    );
  }
  if (field.choices)
    return (
      <select {...common} value={text} onChange={read}>
        <option value="">Choose…</option>
        {field.choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    );
  if (field.type === 'boolean')
    return (
      <select {...common} value={text} onChange={read}>
        <option value="">Choose…</option>
        <option value="true">Yes</option>
        <option value="false">No</option>
      </select>
    );
  if (field.type === 'json')
    return (
      <textarea
        {...common}
        rows={3}
        spellcheck={false}
        placeholder="JSON"
        value={text}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    );
  const isNumber = field.type === 'number' || field.type === 'integer';
  if (field.secret)
    return <input {...common} type="password" autocomplete="off" value={text} onInput={read} />;
  return (
    <input
      {...common}
      type="text"
      inputMode={isNumber ? 'decimal' : undefined}
      autocomplete="off"
      value={text}
      onInput={read}
    />
  );
}

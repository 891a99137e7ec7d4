import { createHash } from 'node:crypto';
import { isObject, type Json, type JsonObject } from '../../json.ts';
import { lazy } from '../../lazy.ts';
import {
  choicesOf,
  type FormField,
  type FormProblem,
  type FormSchema,
  type Params,
} from '../../wire/index.ts';

const STYLE = `:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}
body{max-width:34rem;margin:3rem auto;padding:0 1rem}
label,legend{display:block;margin-top:1rem;font-weight:600}
label.one{font-weight:400;margin-top:.25rem}
fieldset{border:0;padding:0;margin:0}
input:not([type=checkbox]):not([type=radio]),select{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}
small,.from{display:block;opacity:.75}
.wrong{color:#c00}
button{font:inherit;padding:.5rem 1.25rem;margin:1.5rem .5rem 0 0}
pre{white-space:pre-wrap;font:inherit}`;

/** The headers of every page. No script runs, nothing is loaded, and nobody may frame the page or learn its address. */
export const PAGE_HEADERS = lazy(() => {
  const style = createHash('sha256').update(STYLE).digest('base64');
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `default-src 'none'; style-src 'sha256-${style}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'x-robots-tag': 'noindex',
    'cross-origin-opener-policy': 'same-origin',
  };
});

/** Returns a page with a heading and a text. */
export function messagePage(title: string, text: string): string {
  return page(title, `<h1>${html(title)}</h1><p>${html(text)}</p>`);
}

/** Returns the page of a question: a form made from its schema, or a link to the author's own page. */
export function questionPage(
  server: string,
  params: Params,
  given: JsonObject = {},
  problems: readonly FormProblem[] = [],
): string {
  const { message, url, requestedSchema } = params;
  const { properties = {}, required = [] } = (requestedSchema ?? {}) as Partial<FormSchema>;
  const fields = Object.entries(properties).map(([name, field], place) =>
    fieldHtml(place, name, field, {
      isRequired: required.includes(name),
      value: given[name] ?? (field['default'] as Json | undefined),
      problem: problems.find((each) => each.field === name)?.expected,
    }),
  );
  const visit =
    typeof url === 'string' && /^https?:/.test(url)
      ? `<p><a href="${html(url)}" rel="noreferrer noopener" target="_blank">${html(url)}</a></p>`
      : '';
  const isPlain = fields.length === 0;
  return page(
    'A question for you',
    `<p class="from">${html(server)} asks:</p><pre>${html(String(message ?? ''))}</pre>${visit}
<form method="post">${fields.join('\n')}
<button name="valise-action" value="accept">${isPlain ? 'Yes' : 'Send'}</button><button name="valise-action" value="decline" formnovalidate>${isPlain ? 'No' : 'Decline'}</button></form>`,
  );
}

/** Reads what a form has sent. An empty field counts as left out. */
export function readForm(params: Params, form: URLSearchParams): JsonObject {
  const { properties = {} } = (params['requestedSchema'] ?? {}) as Partial<FormSchema>;
  const content: Record<string, Json> = {};
  for (const [at, [name, field]] of Object.entries(properties).entries()) {
    const values = form.getAll(`f${at}`);
    const value = fieldValue(field, values);
    if (value !== undefined) Object.defineProperty(content, name, { value, enumerable: true });
  }
  return content;
}

function fieldValue({ type, format }: FormField, values: readonly string[]): Json | undefined {
  const [first = ''] = values;
  if (type === 'boolean') return values.includes('true');
  if (type === 'array') return [...values];
  if (first === '') return undefined;
  if (type === 'number' || type === 'integer') return Number.isNaN(Number(first)) ? first : Number(first);
  // Browsers send no time zone. The page says that the time is UTC.
  if (format === 'date-time' && /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?$/.test(first))
    return `${first.length === 16 ? `${first}:00` : first}Z`;
  return first;
}

interface Shown {
  readonly isRequired: boolean;
  readonly value: Json | undefined;
  readonly problem: string | undefined;
}

const INPUTS: Readonly<Record<string, string>> = {
  email: 'email',
  uri: 'url',
  date: 'date',
  'date-time': 'datetime-local',
};

/** Returns the control for a field. Its name is the field's place, since a field may have any name. */
function fieldHtml(place: number, name: string, field: FormField, shown: Shown): string {
  const { isRequired, value, problem } = shown;
  const id = `f${place}`;
  const { title, description, type, format } = field;
  const about = [description, format === 'date-time' ? 'The time is in UTC.' : undefined]
    .filter((text) => typeof text === 'string')
    .map((text) => `<small>${html(String(text))}</small>`);
  if (problem !== undefined)
    about.push(`<small class="wrong" role="alert">Should be ${html(problem)}.</small>`);
  const label = html(typeof title === 'string' ? title : name) + (isRequired ? ' *' : '');
  const chosen = Array.isArray(value) ? value : [value];
  const options = optionsOf(type === 'array' && isObject(field['items']) ? field['items'] : field);
  if (type === 'boolean')
    return `<label><input type="checkbox" name="${id}" value="true"${value === true ? ' checked' : ''}> ${label}</label>${about.join('')}`;
  if (type === 'array') {
    const boxes = options.map(
      ([option, words]) =>
        `<label class="one"><input type="checkbox" name="${id}" value="${html(option)}"${chosen.includes(option) ? ' checked' : ''}> ${html(words)}</label>`,
    );
    return `<fieldset><legend>${label}</legend>${boxes.join('')}${about.join('')}</fieldset>`;
  }
  const required = isRequired ? ' required' : '';
  if (options.length > 0) {
    const all = options.map(
      ([option, words]) =>
        `<option value="${html(option)}"${chosen.includes(option) ? ' selected' : ''}>${html(words)}</option>`,
    );
    return `<label for="${id}">${label}</label><select id="${id}" name="${id}"${required}><option value=""></option>${all.join('')}</select>${about.join('')}`;
  }
  const isNumber = type === 'number' || type === 'integer';
  const kind = isNumber ? 'number' : (INPUTS[String(format)] ?? 'text');
  const limits = [
    ['minlength', field['minLength']],
    ['maxlength', field['maxLength']],
    ['min', field['minimum']],
    ['max', field['maximum']],
    ['step', type === 'integer' ? 1 : isNumber ? 'any' : undefined],
  ].map(([attribute, limit]) => (limit === undefined ? '' : ` ${attribute}="${html(String(limit))}"`));
  const text = typeof value === 'string' || typeof value === 'number' ? String(value) : '';
  const filled = format === 'date-time' ? text.replace(/(:00)?Z$/, '') : text;
  return `<label for="${id}">${label}</label><input id="${id}" name="${id}" type="${kind}" value="${html(filled)}"${required}${limits.join('')} autocomplete="off">${about.join('')}`;
}

/** Returns the choices of a field, each with the words that the user sees. */
function optionsOf(field: { readonly [keyword: string]: unknown }): readonly (readonly [string, string])[] {
  const titled = field['oneOf'] ?? field['anyOf'];
  const names = field['enumNames'];
  return (choicesOf(field) ?? []).map((choice, at) => {
    const option: unknown = Array.isArray(titled) ? titled[at] : undefined;
    const words = isObject(option) ? option['title'] : Array.isArray(names) ? names[at] : undefined;
    return [choice, typeof words === 'string' ? words : choice];
  });
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${html(title)}</title><style>${STYLE}</style></head>
<body>${body}</body></html>
`;
}

function html(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

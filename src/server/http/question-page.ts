import { createHash } from 'node:crypto';
import { isObject, type Json, type JsonObject } from '../../core/json.ts';
import { lazy } from '../../core/lazy.ts';
import {
  checkForm,
  choicesOf,
  type FormField,
  type FormProblem,
  type FormSchema,
  type Params,
} from '../../wire/index.ts';
import { QUESTION_PARAMETER } from '../carriers/fallback.ts';
import type { Flows } from '../flows/flows.ts';

/** A response of the page. */
export interface PageResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The largest form that the page accepts, in bytes. */
export const MAX_FORM = 64 * 1024;

/** Returns the secret of the question that a URL is the page of, or undefined if it is for the handler. */
export function questionIn(url: string): string | undefined {
  const at = url.indexOf(`${QUESTION_PARAMETER}=`);
  if (at < 1 || !'?&'.includes(url[at - 1] as string)) return undefined;
  return url.slice(at + QUESTION_PARAMETER.length + 1).split('&', 1)[0];
}

/**
 * Serves the page of a question, where the user answers it once.
 *
 * Showing the page changes nothing, since mail and chat programs fetch links before anybody opens them.
 */
export async function serveQuestion(
  { fallback, context, refused }: Pick<Flows, 'fallback' | 'context' | 'refused'>,
  method: string,
  token: string,
  readBody: () => Promise<string | undefined>,
): Promise<PageResponse> {
  if (method !== 'GET' && method !== 'HEAD' && method !== 'POST')
    return respond(405, messagePage('Not possible', 'This page can only be opened and answered.'));
  const found = await fallback.questions.look(token);
  if (!found) {
    refused('the page of a question', { code: 'unknown' });
    return respond(404, messagePage('Not found', 'This question is unknown, or it has expired.'));
  }
  const { params, answer, mark } = found.question;
  const isSecret = mark === 'secret';
  if (answer)
    return respond(410, messagePage('Answered', 'This question has been answered. You can close this page.'));
  if (method !== 'POST') return respond(200, questionPage(context.name, params, { isSecret }));
  const body = await readBody();
  if (body === undefined) return respond(413, messagePage('Too much', 'The answer is too long.'));
  const form = new URLSearchParams(body);
  const action = form.get('valise-action') === 'accept' ? 'accept' : 'decline';
  const content = readForm(params, form);
  const schema = params['requestedSchema'] as unknown as FormSchema | undefined;
  const problems = action === 'accept' && schema ? checkForm(schema, content) : [];
  if (problems.length > 0)
    return respond(422, questionPage(context.name, params, { isSecret, entered: content, problems }));
  const isFirst = await fallback.questions.answer(
    found,
    action === 'accept' && schema ? { action, content } : { action },
  );
  if (!isFirst) refused('a second answer on the page of a question', { code: 'replayed' });
  return isFirst
    ? respond(200, messagePage('Thank you', THANKS))
    : respond(410, messagePage('Answered', 'This question has been answered. You can close this page.'));
}

const THANKS = 'Your answer has been saved. Go back to the chat and say that you have answered.';

function respond(status: number, body: string): PageResponse {
  return { status, headers: PAGE_HEADERS(), body };
}

const STYLE = `:root{color-scheme:light dark;--line:light-dark(#8a8f98,#7d838d);--quiet:light-dark(#555b65,#b3b9c2);--wrong:light-dark(#b3001b,#ff9a9a);--main:light-dark(#1f4fd8,#9db8ff);font:1rem/1.5 system-ui,sans-serif}
body{margin:0;background:light-dark(#fff,#16181d);color:light-dark(#16181d,#f1f3f6)}
main{max-width:34rem;margin:0 auto;padding:2.5rem 1rem;overflow-wrap:anywhere}
h1{font-size:1rem;font-weight:400;color:var(--quiet);margin:0}
.message{font-size:1.25rem;white-space:pre-wrap;margin:.25rem 0 1.5rem}
label,legend{display:block;padding:0;font-weight:600}
label,fieldset{margin-top:1rem}
label.one{font-weight:400;margin-top:.25rem}
fieldset{border:0;padding:0;margin-inline:0;margin-bottom:0;min-width:0}
input:not([type=checkbox]),select{font:inherit;width:100%;box-sizing:border-box;padding:.5rem;margin-top:.25rem;border:1px solid var(--line);border-radius:.375rem;background:light-dark(#fff,#1f2228);color:inherit}
small{display:block;color:var(--quiet)}
.wrong{color:var(--wrong)}
a{color:var(--main)}
button{font:inherit;padding:.5rem 1.25rem;margin:1.5rem .5rem 0 0;border:1px solid var(--main);border-radius:.375rem;background:none;color:var(--main);cursor:pointer}
button[value=accept]{background:var(--main);color:light-dark(#fff,#16181d)}
:focus-visible{outline:3px solid var(--main);outline-offset:2px}`;

/** The headers of every page. No script runs, nothing is loaded, and nobody may frame the page or learn its address. */
const PAGE_HEADERS = lazy(() => {
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
function messagePage(title: string, text: string): string {
  return page(title, `<h1>${html(title)}</h1><p class="message">${html(text)}</p>`);
}

/** What is shown in a form besides its fields. */
interface Entered {
  /** Whether the answer is a secret, so that the page does not show what the user enters. */
  readonly isSecret: boolean;
  readonly entered?: JsonObject;
  readonly problems?: readonly FormProblem[];
}

/** Returns the page of a question: a form made from its schema, or a link to the author's own page. */
function questionPage(
  server: string,
  params: Params,
  { isSecret, entered = {}, problems = [] }: Entered,
): string {
  const { message, url, requestedSchema } = params;
  const { properties = {}, required = [] } = (requestedSchema ?? {}) as Partial<FormSchema>;
  const fields = Object.entries(properties).map(([name, field], place) =>
    fieldHtml(place, name, field, {
      isSecret,
      isRequired: required.includes(name),
      value: entered[name] ?? (field['default'] as Json | undefined),
      problem: problems.find((each) => each.field === name)?.expected,
    }),
  );
  const visit =
    typeof url === 'string' && /^https?:/.test(url)
      ? `<p><a href="${html(url)}" rel="noreferrer noopener" target="_blank">${html(url)}</a></p>`
      : '';
  const isPlain = fields.length === 0;
  return page(
    `${problems.length > 0 ? 'Please check your answer' : 'A question for you'} (${server})`,
    `<h1>${html(server)} asks:</h1><p class="message">${html(String(message ?? ''))}</p>${visit}
<form method="post">${fields.join('\n')}
<button name="valise-action" value="accept">${isPlain ? 'Yes' : 'Send'}</button><button name="valise-action" value="decline" formnovalidate>${isPlain ? 'No' : 'Decline'}</button></form>`,
  );
}

/** Reads what a form has sent. An empty field counts as left out. */
function readForm(params: Params, form: URLSearchParams): JsonObject {
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
  readonly isSecret: boolean;
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
  const { isSecret, isRequired, value, problem } = shown;
  const id = `f${place}`;
  const { title, description, type, format } = field;
  const about = [description, format === 'date-time' ? 'The time is in UTC.' : undefined]
    .filter((text) => typeof text === 'string')
    .map((text) => html(String(text)));
  const notes = [
    ...about.map((text) => `<small>${text}</small>`),
    ...(problem === undefined ? [] : [`<small class="wrong">Should be ${html(problem)}.</small>`]),
  ];
  const note = notes.length === 0 ? '' : `<div id="${id}-note">${notes.join('')}</div>`;
  const aria = `${note === '' ? '' : ` aria-describedby="${id}-note"`}${problem === undefined ? '' : ' aria-invalid="true"'}`;
  const label = html(typeof title === 'string' ? title : name) + (isRequired ? ' *' : '');
  const chosen = Array.isArray(value) ? value : [value];
  const options = optionsOf(type === 'array' && isObject(field['items']) ? field['items'] : field);
  if (type === 'boolean')
    return `<label><input type="checkbox" name="${id}" value="true"${value === true ? ' checked' : ''}${aria}> ${label}</label>${note}`;
  if (type === 'array') {
    const boxes = options.map(
      ([option, words]) =>
        `<label class="one"><input type="checkbox" name="${id}" value="${html(option)}"${chosen.includes(option) ? ' checked' : ''}> ${html(words)}</label>`,
    );
    return `<fieldset${aria}><legend>${label}</legend>${boxes.join('')}${note}</fieldset>`;
  }
  const required = isRequired ? ' required' : '';
  if (options.length > 0) {
    const all = options.map(
      ([option, words]) =>
        `<option value="${html(option)}"${chosen.includes(option) ? ' selected' : ''}>${html(words)}</option>`,
    );
    return `<label for="${id}">${label}</label><select id="${id}" name="${id}"${required}${aria}><option value=""></option>${all.join('')}</select>${note}`;
  }
  const isNumber = type === 'number' || type === 'integer';
  const kind = isSecret ? 'password' : isNumber ? 'number' : (INPUTS[String(format)] ?? 'text');
  const limits = [
    ['minlength', field['minLength']],
    ['maxlength', field['maxLength']],
    ['min', field['minimum']],
    ['max', field['maximum']],
    ['step', type === 'integer' ? 1 : isNumber ? 'any' : undefined],
  ].map(([attribute, limit]) => (limit === undefined ? '' : ` ${attribute}="${html(String(limit))}"`));
  const text = !isSecret && (typeof value === 'string' || typeof value === 'number') ? String(value) : '';
  const filled = format === 'date-time' ? text.replace(/(:00)?Z$/, '') : text;
  return `<label for="${id}">${label}</label><input id="${id}" name="${id}" type="${kind}" value="${html(filled)}"${required}${limits.join('')}${aria} autocomplete="off">${note}`;
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
<body><main>${body}</main></body></html>
`;
}

function html(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

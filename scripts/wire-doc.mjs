#!/usr/bin/env node
// Generates the tables of spec/wire.md from src/wire. `node scripts/wire-doc.mjs` writes them; with `--check` it only
// compares.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const document = fileURLToPath(new URL('../spec/wire.md', import.meta.url));

/** @typedef {typeof import('../src/wire/index.ts')} Wire */

/**
 * Returns each table of the document, by the name in its marker.
 * @param {Wire} wire
 * @returns {Record<string, string>}
 */
export function tables({ NAMES, DRAFTS, ...wire }) {
  const both = (what, pick) => [what, ...[NAMES.legacy, NAMES.modern].map((names) => code(pick(names)))];
  const scope = (which) => (names) =>
    names.state.key ? [names.state.key, names.state[which]] : names.state[which];
  const method = (verb) => both(`method: ${verb}`, (names) => names.method[verb]);
  const head = (first) => [first, '2025 peers (`legacy`)', '2026-07-28 peers (`modern`)'];
  return {
    jar: table(head('jar (J)'), [
      both('`_meta`: session scope', scope('session')),
      both('`_meta`: server scope', scope('server')),
      both('`_meta`: attributes', (names) => names.state.attributes),
      both('client capability', (names) => names.capability.state),
      both('extension', (names) => names.extension.state),
    ]),
    rounds: table(head('rounds (R)'), [
      both('questions', (names) => names.rounds.requests),
      both('answers', (names) => names.rounds.responses),
      both('context', (names) => names.rounds.state),
      both('error data: what became of the request', (names) => names.outcome),
      both('`_meta` of a question: when it expires', (names) => names.expiresAt),
      both('extension', (names) => names.extension.rounds),
    ]),
    sessions: table(head('sessions (S)'), [
      both('`_meta`: the session', (names) => names.session),
      both('`_meta`: sequence of its state', (names) => names.seq),
      both('`_meta`: listening', (names) => names.listen),
      ...Object.keys(NAMES.legacy.method).map(method),
      both('notification: listening', (names) => names.notification.listening),
      both('error: session not found', (names) => names.code.sessionNotFound),
      both('error: session required', (names) => names.code.sessionRequired),
      both('error: session conflict', (names) => names.code.sessionConflict),
      both('error data: the call had begun', (names) => names.begun),
      both('HTTP header', (names) => names.header.session),
      both('server capability, client’s under `experimental`', (names) => names.capability.sessions),
      both('extension', (names) => names.extension.sessions),
      both('tool annotation', (names) => names.annotation.resourceAllocation),
    ]),
    continuity: table(head('continuity (C)'), [
      both('HTTP header: protocol version', (names) => names.header.protocolVersion),
      both('`_meta`: the client, to a server that keeps nothing', (names) => names.introduction),
    ]),
    idempotency: table(head('calls that may be repeated (I)'), [
      both('`_meta` of a call: its key', (names) => names.idempotency.key),
      both('`_meta` of a call: its answer was lost', (names) => names.idempotency.repeat),
      both('`_meta` of a tool: its calls may be repeated', (names) => names.idempotency.tool),
      both('server extension', (names) => names.extension.idempotency),
    ]),
    versions: table(
      ['extension', 'versions'],
      Object.entries(wire.EXTENSION_VERSIONS).map(([family, versions]) => [
        code(NAMES.modern.extension[family]),
        versions.join(', '),
      ]),
    ),
    drafts: table(
      ['also read', 'stands for'],
      [
        [code(DRAFTS.state.session), code(NAMES.legacy.state.session)],
        [code(DRAFTS.state.server), code(NAMES.legacy.state.server)],
        [code(DRAFTS.session), `${code(NAMES.legacy.session)}; in it \`id\`, \`expiry\`, \`data\``],
        ...Object.entries(DRAFTS.method).map(([verb, name]) => [code(name), code(NAMES.legacy.method[verb])]),
        [code(DRAFTS.idempotencyKey), code(NAMES.legacy.idempotency.key)],
        [code(DRAFTS.code.sessionNotFound), code(NAMES.legacy.code.sessionNotFound)],
        [
          `${code(DRAFTS.code.sessionRequired)} with “Session required” in the message`,
          code(NAMES.legacy.code.sessionRequired),
        ],
        [
          `${code(NAMES.legacy.code.sessionNotFound)} with “Session required” in the message, or if no session was sent`,
          code(NAMES.legacy.code.sessionRequired),
        ],
      ],
    ),
    limits: table(
      ['limit', 'value', 'beyond it'],
      [
        ['names in one scope of one message', count(wire.MAX_NAMES), 'the scope is not read'],
        ['nesting of a value', count(wire.MAX_DEPTH), 'the value is not read'],
        ['`max-age`, in seconds', count(wire.MAX_AGE), 'the state is refused'],
        ['session id, in characters', count(wire.MAX_SESSION_ID), 'the metadata is invalid'],
        ['label, in characters', count(wire.MAX_LABEL), 'the params are invalid'],
        ['idempotency key, in characters', count(wire.MAX_IDEMPOTENCY_KEY), 'the call is refused'],
        ['questions in one round', count(wire.MAX_QUESTIONS), 'the round is invalid'],
      ],
    ),
  };
}

/**
 * Returns the document with its tables between the markers `<!-- table: NAME -->` and `<!-- /table -->`.
 * @param {string} text
 * @param {Record<string, string>} made
 */
export function withTables(text, made) {
  const used = new Set();
  const next = text.replace(
    /(<!-- table: (\w+) -->\n)[\s\S]*?(<!-- \/table -->)/g,
    (_, open, name, close) => {
      if (!(name in made)) throw new Error(`spec/wire.md asks for a table "${name}"; there is none.`);
      used.add(name);
      return `${open}${made[name]}\n${close}`;
    },
  );
  const left = Object.keys(made).filter((name) => !used.has(name));
  if (left.length > 0) throw new Error(`spec/wire.md has no place for: ${left.join(', ')}.`);
  return next;
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function code(name) {
  return (Array.isArray(name) ? name : [name]).map((part) => `\`${part}\``).join(' → ');
}

function count(number) {
  return number.toLocaleString('en');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { tsImport } = await import('tsx/esm/api');
  const text = readFileSync(document, 'utf8');
  const next = withTables(text, tables(await tsImport('../src/wire/index.ts', import.meta.url)));
  if (next === text) console.log('spec/wire.md agrees with src/wire.');
  else if (process.argv.includes('--check')) {
    console.error('spec/wire.md does not agree with src/wire. Run `node scripts/wire-doc.mjs`.');
    process.exitCode = 1;
  } else {
    writeFileSync(document, next);
    console.log('spec/wire.md has the tables of src/wire now.');
  }
}

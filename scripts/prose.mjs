// Finds the prose in documents and sources, and what is wrong with it: sentences that are too long, and constructions that
// are not plain English. Pure functions; scripts/words.mjs runs them over the repository.
import ts from 'typescript';

/** The most words that a sentence of a document may have. */
export const MAX_WORDS = 35;

/** Constructions that read like a translation, each with what to write instead. */
export const BANNED = [
  [/\bunless told\b/gi, 'by default'],
  [
    /\b(?:True|False|Undefined|Null|Nothing|None|Empty) (?:where|for)\b/g,
    '"Whether …", "Returns undefined if …"',
  ],
  [
    /(?<=^|[.:!?] |\| )What (?:is|was|are|were|has|have|had|a|an|the|it|they|stays?|belongs?|comes?|goes|came|cannot)\b(?![^.|]*\?)/gm,
    'name the thing',
  ],
  [/(?<=^|[.:!?] |\| )Where (?!(?=[^.|]*\?))(?=[^.|]*,)/gm, '"If …" or "When …"'],
  [/\bwhere (?:there (?:is|are|was|were)|none|nothing|nobody|no \w+)\b/g, '"if there is …"'],
  [/\b(?:go|goes|going|gone|went) on\b(?! (?:the|a|its|this|that|stdout|top)\b)/g, '"continue", "resume"'],
  [/\bany more\b/gi, '"no longer"'],
  [/\banew\b/gi, '"again", "a new …"'],
  [/\bha(?:s|ve) go\b/gi, '"evicts", "drops"'],
  [/\b(?:is|are|was|were) told so\b/gi, 'say who reports what'],
  [/\b(?:tells?|told|telling) of\b/gi, '"report", "say"'],
  [/\b(?:hears?|heard|hearing) of\b/gi, '"learns", "is notified"'],
  [/\bof (?:yours|ours|theirs|his|hers)\b/gi, '"your …", "our …"'],
  [/\bone's own\b/gi, '"your own"'],
  [/\belse than\b/gi, '"other than", "expected …, got …"'],
  [/\bof which is (?:certain|known|said)\b/gi, 'split the sentence'],
  [/\bwithout a word\b/gi, '"silently", "immediately"'],
  [/\b(?:came|comes?|coming) to nothing\b/gi, '"failed", "had no effect"'],
  [/\bput(?:s|ting)? right\b/gi, '"repair", "update"'],
  [/\b(?:and|or|of) (?:the|its) like\b/gi, 'name the others'],
  [/\bbrings? nothing\b/gi, '"returns nothing"'],
  [/\bin vain\b/gi, '"without success"'],
  [/\b(?:by|of|to|for) whom\b/gi, 'active voice'],
  [/\b(?:where|there|here)(?:of|upon|in|with)\b(?<!therein|herein)/gi, 'split the sentence'],
];

/**
 * Returns a document without its code, comments and link targets. Lines keep their numbers.
 * @param {string} markdown
 */
export function documentProse(markdown) {
  const blank = (text) => text.replace(/[^\n]/g, '');
  return markdown
    .replace(/^( *)(`{3,})[\s\S]*?^\1\2$/gm, blank)
    .replace(/<!--[\s\S]*?-->/g, blank)
    .replace(/`[^`\n]*`/g, '`x`')
    .replace(/\]\([^)\s]*\)/g, ']');
}

/**
 * Returns the words of a document that can be misspelled: no code, names, links or addresses. Lines keep their numbers.
 * @param {string} markdown
 */
export function spellingProse(markdown) {
  return documentProse(markdown).replace(/https?:\/\/\S+/g, '');
}

/**
 * Returns the comments and strings of a source file, and spaces in place of everything else.
 * With `titles`, only the titles of tests.
 * @param {string} path
 * @param {string} text
 * @param {{ titles?: boolean }} [options]
 */
export function sourceProse(path, text, { titles = false } = {}) {
  const kept = [];
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const visit = (node) => {
    if (titles ? isTitle(node) : isSentence(node)) kept.push([node.getStart(file), node.getEnd()]);
    ts.forEachChild(node, visit);
  };
  visit(file);
  if (!titles) for (const range of commentsOf(file, text)) kept.push(range);
  const out = [...text.replace(/[^\n]/g, ' ')];
  for (const [start, end] of kept) for (let at = start; at < end; at++) out[at] = text[at];
  // A comment is one paragraph, whatever its lines begin with.
  return out
    .join('')
    .replace(/^( *)(?:\/\*\*?|\*\/?|\/\/)/gm, (found) => ' '.repeat(found.length))
    .replace(/`[^`\n]*`/g, (found) => (titles ? found : `\`${'x'.repeat(found.length - 2)}\``));
}

function isSentence(node) {
  const isText =
    ts.isStringLiteralLike(node) ||
    node.kind === ts.SyntaxKind.TemplateHead ||
    node.kind === ts.SyntaxKind.TemplateMiddle ||
    node.kind === ts.SyntaxKind.TemplateTail;
  return isText && /\s/.test(node.text) && !ts.isImportDeclaration(node.parent);
}

function isTitle(node) {
  if (!ts.isStringLiteralLike(node) || !ts.isCallExpression(node.parent)) return false;
  return (
    node.parent.arguments[0] === node && /^(?:it|test|describe)\b/.test(node.parent.expression.getText())
  );
}

function commentsOf(file, text) {
  const ranges = new Map();
  const visit = (node) => {
    for (const each of ts.getLeadingCommentRanges(text, node.getFullStart()) ?? [])
      ranges.set(each.pos, each.end);
    for (const each of ts.getTrailingCommentRanges(text, node.getEnd()) ?? []) ranges.set(each.pos, each.end);
    node.getChildren(file).forEach(visit);
  };
  visit(file);
  return ranges;
}

/**
 * Returns each banned construction of a text, with its line.
 * @param {string} text
 */
export function bannedIn(text) {
  return BANNED.flatMap(([pattern, instead]) =>
    [...text.matchAll(pattern)].map((match) => ({
      line: lineOf(text, match.index),
      found: text
        .slice(match.index, match.index + 50)
        .split('\n')[0]
        .trim(),
      instead,
    })),
  );
}

/**
 * Returns the sentences of a document, with the line each begins on and its number of words. A list item, a heading and a
 * cell of a table each end a sentence.
 * @param {string} markdown
 */
export function sentencesOf(markdown) {
  const sentences = [];
  let block = '';
  let start = 0;
  const close = () => {
    for (const text of split(block)) sentences.push({ line: start + 1, text, words: wordsIn(text) });
    block = '';
  };
  documentProse(markdown)
    .split('\n')
    .forEach((line, index) => {
      const begins = /^\s*(?:[-*]|\d+\.|#+|>)\s/.test(line) || /^\s*\|/.test(line);
      if (begins || line.trim() === '') close();
      if (line.trim() === '') return;
      if (/^\s*\|/.test(line)) {
        for (const cell of line.split(/(?<!\\)\|/)) {
          [block, start] = [cell, index];
          close();
        }
        return;
      }
      if (block === '') start = index;
      block += ` ${line.replace(/^\s*(?:[-*]|\d+\.|#+|>)\s+/, '')}`;
    });
  close();
  return sentences;
}

function split(block) {
  return block
    .split(/(?<=[.!?]["')*_\]]*)\s+(?=["'(*_[`]*[\p{Lu}`\d])/u)
    .map((text) => text.trim())
    .filter((text) => wordsIn(text) > 0);
}

function wordsIn(text) {
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

function lineOf(text, index) {
  return text.slice(0, index).split('\n').length;
}

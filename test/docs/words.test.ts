import { describe, expect, it } from 'vitest';
import { bannedIn, documentProse, MAX_WORDS, sentencesOf, sourceProse } from '../../scripts/prose.mjs';

describe('the sentence check', () => {
  const lengths = (markdown: string) => sentencesOf(markdown).map(({ words }) => words);

  it('The sentence check counts the words of each sentence, across lines', () => {
    expect(lengths('One two three.\nFour five\nsix. Seven!')).toEqual([3, 3, 1]);
  });

  it('The sentence check ends a sentence with a list item, a heading and a table cell', () => {
    expect(lengths('# A title\n\n- one two\n- three\n\n| a b | c |\n|---|---|\n| d | e f g |')).toEqual([
      2, 2, 1, 2, 1, 1, 3,
    ]);
  });

  it('The sentence check counts inline code and links as a reader sees them, and ignores code blocks', () => {
    expect(lengths('Call `a.b(c, d)` as in [the page](other.md#x).\n\n```ts\none two three\n```\n')).toEqual([
      6,
    ]);
  });

  it('The sentence check names the line of a sentence that is too long', () => {
    const long = `${'word '.repeat(MAX_WORDS)}end.`;
    expect(sentencesOf(`Short.\n\n${long}`).filter(({ words }) => words > MAX_WORDS)).toEqual([
      { line: 3, words: MAX_WORDS + 1, text: long },
    ]);
  });
});

describe('the construction check', () => {
  const found = (text: string) =>
    bannedIn(text).map(({ found: what }) => what.split(' ').slice(0, 2).join(' '));

  it.each([
    ['It is kept unless told otherwise.', 'unless told'],
    ['True where the server is known.', 'True where'],
    ['Undefined for notifications without a session.', 'Undefined for'],
    ['What is sealed stays sealed.', 'What is'],
    ['Where the server asks, answer.', 'Where the'],
    ['A link, or none where there is none.', 'where there'],
    ['The call goes on elsewhere.', 'goes on'],
    ['It is not valid any more.', 'any more.'],
    ['The token is made anew.', 'anew.'],
    ['Has go what is too much.', 'Has go'],
    ['The host is told so.', 'is told'],
    ['A store of yours.', 'of yours.'],
    ['Was given something else than it takes.', 'else than'],
  ])('The construction check reports %s', (text, construction) => {
    expect(found(text)).toContain(construction);
  });

  it.each([
    'What is the jar? Where does it live?',
    'It goes on the wire.',
    'Lists what is kept.',
    'Opens the folder where the file is.',
  ])('The construction check does not report "%s"', (text) => {
    expect(found(text)).toEqual([]);
  });

  it('The construction check reads no code in documents, and only comments and strings in sources', () => {
    expect(bannedIn(documentProse('`unless told`\n\n```ts\n// any more\n```\n'))).toEqual([]);
    const source = "// any more\nconst unless = told; const text = 'a b anew'; const key = 'anew';";
    expect(bannedIn(sourceProse('a.ts', source)).map(({ line }) => line)).toEqual([1, 2]);
  });

  it('The construction check reads only the titles of tests', () => {
    const source = "it('goes on forever', () => { say('is told so'); }); // any more";
    expect(bannedIn(sourceProse('a.test.ts', source, { titles: true }))).toHaveLength(1);
  });
});

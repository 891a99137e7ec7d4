// Runs one host without Valise in a process of its own, at several servers. Writes one JSON line for each: what it said.
import type { Open } from '../../examples/hosts/host.ts';
import { answerOnPage } from './answer.ts';

export interface Job {
  readonly name: string;
  readonly url: string;
  readonly prompts: readonly string[];
}

const [example = '', given = '[]'] = process.argv.slice(2);
const { open } = (await import(example)) as { readonly open: Open };
for (const { name, url, prompts } of JSON.parse(given) as Job[]) {
  let asked = 0;
  const said: string[] = [];
  try {
    const conversation = await open({
      url,
      valise: undefined,
      redirect: () => undefined,
      async answer() {
        asked++;
        return { action: 'accept', content: { name: 'Ada' } };
      },
    });
    const say = (prompt: string) => conversation.say(prompt).catch((error: unknown) => `ERROR ${error}`);
    for (const prompt of prompts) {
      const text = await say(prompt);
      // The user answers `greet` at once, on the page if there is a link, and says so.
      const isAnswered = prompt.startsWith('Call greet') && (await answerOnPage(text));
      const [handle] = /vh1_[\w-]{22}/.exec(text) ?? [];
      const earlier = handle ? `. Earlier result: state_handle: ${handle}` : '';
      said.push(isAnswered ? `${text}\n${await say(`${prompt}${earlier}`)}` : text);
    }
    await conversation.close();
  } catch (error) {
    said.push(`ERROR ${error}`);
  }
  process.stdout.write(`${JSON.stringify({ name, said, asked })}\n`);
}
process.exit(0);

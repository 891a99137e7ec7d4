// Runs one host in a process of its own: the prompts of its command line, one after the other. Writes one JSON line for each.
import { openValise } from 'mcp-valise/client';
import type { Open } from '../../examples/hosts/host.ts';

const [example = '', url = '', store = '', user = '', ...prompts] = process.argv.slice(2);
const { open } = (await import(example)) as { readonly open: Open };
const valise = store === '' ? undefined : await openValise({ store, allowLocal: true });
const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** A user who signs in without a browser: follows the redirects, with cookies. */
async function followPage(page: URL): Promise<void> {
  tell({ page: true });
  const cookies = new Map<string, string>();
  for (let at: URL | undefined = page; at; ) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const response = await fetch(at, { redirect: 'manual', headers: { cookie } });
    await response.text();
    for (const line of response.headers.getSetCookie()) {
      const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(key, value);
    }
    const next: string | null = response.headers.get('location');
    at = next === null ? undefined : new URL(next, at);
  }
}

const conversation = await open({
  url,
  valise,
  redirect: followPage,
  async answer() {
    tell({ asked: true });
    // A user who is thinking while the host is killed.
    if (user === 'thinks') await new Promise(() => setInterval(() => {}, 1e6));
    return { action: 'accept', content: { name: 'Ada' } };
  },
});
for (const prompt of prompts) {
  if (prompt === 'Answer') {
    const [round] = (await valise?.pending.list()) ?? [];
    const answer = { action: 'accept', content: { name: 'Ada' } };
    tell({ said: round ? JSON.stringify(await valise?.pending.answer(round.id, answer)) : 'none is open' });
  } else
    tell(
      await conversation.say(prompt).then(
        (said) => ({ said }),
        (error: unknown) => ({ said: `ERROR ${error}` }),
      ),
    );
}
await conversation.close();
await valise?.close();
process.exit(0);

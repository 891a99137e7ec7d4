/** The user follows the link in a text and answers on the page. Returns whether there was a link. */
export async function answerOnPage(text: string): Promise<boolean> {
  const [link] = /http:\/\/127[^\s\\"]+valise-question=[\w-]+/.exec(text) ?? [];
  if (link === undefined) return false;
  const body = new URLSearchParams({ f0: 'Ada', 'valise-action': 'accept' });
  const { status } = await fetch(link, { method: 'POST', body });
  if (status !== 200) throw new Error(`The page answered with ${status}.`);
  return true;
}

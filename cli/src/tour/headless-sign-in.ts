const MOST_REDIRECTS = 20;

/** Signs in without a browser: follows the redirects and sends the cookies that they set. */
export async function signInHeadless(page: URL, name: string): Promise<void> {
  const cookies = new Map<string, string>();
  let url = new URL(page);
  url.searchParams.set('login_hint', name);
  for (let hop = 0; hop < MOST_REDIRECTS; hop++) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } });
    await response.body?.cancel();
    for (const set of response.headers.getSetCookie()) {
      const [, key, value] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      if (key !== undefined && value !== undefined) cookies.set(key, value);
    }
    const next = response.headers.get('location');
    if (next === null) return;
    url = new URL(next, url);
  }
}

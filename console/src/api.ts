import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Moment } from './types.ts';

/** An error of the console's server, with the next step in its message. */
export class ApiError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The page may be mounted below a path, so addresses are relative to it. */
const BASE = new URL('.', document.baseURI).href;

async function answerOf<Value>(response: Response): Promise<Value> {
  if (!response.headers.get('content-type')?.includes('json'))
    throw new ApiError(
      'no-answer',
      (await response.text()).trim() || `The console answered ${response.status}.`,
    );
  const body = await response.json();
  if (response.ok) return body as Value;
  throw new ApiError(String(body?.error?.code ?? ''), String(body?.error?.message ?? 'This did not work.'));
}

const GONE = 'The console does not answer. Is `valise console` still running?';

/** Reads something. */
export async function get<Value>(path: string): Promise<Value> {
  const response = await fetch(`${BASE}api/${path}`).catch(() => undefined);
  if (!response) throw new ApiError('gone', GONE);
  return answerOf(response);
}

/** Does something. */
export async function post<Value>(path: string, body: object = {}): Promise<Value> {
  const response = await fetch(`${BASE}api/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).catch(() => undefined);
  if (!response) throw new ApiError('gone', GONE);
  return answerOf(response);
}

type News = { readonly moment: Moment } | { readonly changed: readonly string[] };

const listeners = new Set<(news: News) => void>();
const states = new Set<(isLive: boolean) => void>();
let live: EventSource | undefined;

/** Opens the stream of news, once for the page. */
function listen(listener: (news: News) => void): () => void {
  if (!live) {
    live = new EventSource(`${BASE}api/live`);
    live.onmessage = ({ data }) => {
      for (const each of listeners) each(JSON.parse(data) as News);
    };
    live.onopen = () => {
      for (const each of states) each(true);
      // Something may have been missed while the stream was down.
      for (const each of listeners) each({ changed: ['*'] });
    };
    live.onerror = () => {
      for (const each of states) each(false);
    };
  }
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether news arrive. */
export function useLive(): boolean {
  const [isLive, set] = useState(true);
  useEffect(() => {
    states.add(set);
    return () => void states.delete(set);
  }, []);
  return isLive;
}

/** Calls back for each new moment of the timeline. */
export function useMoments(add: (moment: Moment) => void): void {
  const latest = useRef(add);
  latest.current = add;
  useEffect(
    () =>
      listen((news) => {
        if ('moment' in news) latest.current(news.moment);
      }),
    [],
  );
}

/** Data of the console's server, an error, or neither while it loads. */
export interface Loaded<Value> {
  readonly data: Value | undefined;
  readonly error: ApiError | undefined;
  readonly reload: () => void;
}

/** Loads something, and loads it again when one of these parts has changed. */
export function useData<Value>(path: string, ...parts: readonly string[]): Loaded<Value> {
  const [loaded, set] = useState<{ data?: Value; error?: ApiError }>({});
  const wanted = parts.join();
  const state = useRef({ busy: false, again: false, gone: false });
  const load = useCallback(async () => {
    const own = state.current;
    if (own.busy) {
      own.again = true;
      return;
    }
    own.busy = true;
    try {
      const data = await get<Value>(path);
      if (!own.gone) set({ data });
    } catch (error) {
      if (!own.gone) set((before) => ({ ...before, error: error as ApiError }));
    }
    own.busy = false;
    if (own.again && !own.gone) {
      own.again = false;
      setTimeout(load, 150);
    }
  }, [path]);
  useEffect(() => {
    const own = { busy: false, again: false, gone: false };
    state.current = own;
    let timer: ReturnType<typeof setTimeout> | undefined;
    void load();
    const forget = listen((news) => {
      if (!('changed' in news)) return;
      if (!news.changed.some((part) => part === '*' || wanted.split(',').includes(part))) return;
      clearTimeout(timer);
      timer = setTimeout(load, 60);
    });
    return () => {
      own.gone = true;
      clearTimeout(timer);
      forget();
    };
  }, [load, wanted]);
  return { data: loaded.data, error: loaded.error, reload: () => void load() };
}

import type { HttpTarget } from '../client/http.ts';
import { type ClientValise, openValise } from '../client/index.ts';
import type { TransportLike } from '../link/transport.ts';
import { type AnswerSource, parseAnswers } from './ask/answerer.ts';
import { ELICITATION, setAnswerer } from './ask/handler.ts';
import { openBrowser } from './browser.ts';
import { type ConnectOptions, storeUrl } from './options.ts';
import { remark } from './output.ts';
import { resolvingFetch } from './resolve.ts';
import { makeClient } from './sdk.ts';
import { type CliTarget, parseTarget } from './target.ts';

/** A client of a command, connected. */
export interface Connected {
  readonly client: Awaited<ReturnType<typeof makeClient>>;
  readonly valise: ClientValise;
  close(): Promise<void>;
}

/** Connects to TARGET as the options say, with everything that Valise keeps for it. */
export async function connectTo(text: string, options: ConnectOptions): Promise<Connected> {
  const target = parseTarget(text);
  const valise = await openFor(options);
  try {
    const client = await makeClient({ sdk: options.sdk, era: options.era, capabilities: ELICITATION });
    await setAnswerer(client, options.sdk, answersOf(options));
    await connectWith(valise, client, target, options);
    return {
      client,
      valise,
      async close() {
        await client.close();
        await valise.close();
      },
    };
  } catch (error) {
    await valise.close().catch((late: unknown) => remark(String(late)));
    throw error;
  }
}

/** Runs of a command over HTTP are one session together, as runs of curl with one cookie jar are. */
export function connectWith(
  valise: ClientValise,
  client: Parameters<ClientValise['connect']>[0],
  target: CliTarget,
  options: ConnectOptions,
): Promise<void> {
  return valise.connect(
    client,
    wayTo(valise, target, options),
    target.kind === 'http' ? { session: 'kept' } : {},
  );
}

function wayTo(valise: ClientValise, target: CliTarget, options: ConnectOptions): TransportLike | HttpTarget {
  if (target.kind === 'stdio') return valise.stdio(target.command);
  return valise.http(target.url, {
    headers: options.header,
    fetch: resolvingFetch(options.resolve),
    // A header of the user's own is how to be signed in then.
    ...(!hasAuthorization(options.header) && { auth: { redirect: openBrowser } }),
  });
}

function hasAuthorization(headers: Readonly<Record<string, string>>): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === 'authorization');
}

function answersOf({ answer = [] }: ConnectOptions): AnswerSource {
  return {
    given: parseAnswers(answer),
    interactive: process.stdin.isTTY === true && process.stderr.isTTY === true,
  };
}

/** What the options say about where and whose state is kept. */
export function openFor(
  options: Pick<ConnectOptions, 'store' | 'principal' | 'allowLocal' | 'insecurePlaintext'>,
): Promise<ClientValise> {
  const { principal, allowLocal, insecurePlaintext } = options;
  const { VALISE_KEYS: keys } = process.env;
  return openValise({
    store: storeUrl(options.store),
    principal,
    allowLocal,
    insecurePlaintext,
    ...(keys && { keys }),
  });
}

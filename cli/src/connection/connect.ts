import { type ClientValise, type HttpOptions, openValise } from 'mcp-valise/client';
import { fileOf, StdioClientTransport, type TransportLike } from 'mcp-valise/internal';
import { type AnswerSource, parseAnswers } from '../ask/answerer.ts';
import { ELICITATION, setAnswerer } from '../ask/handler.ts';
import { UsageError } from '../errors.ts';
import { keysIfAny } from '../options/key-source.ts';
import { type ConnectOptions, isThere, storeUrl } from '../options/options.ts';
import { printEvents, printOverlong, warnIfUnkept } from '../output/client-events.ts';
import { clean, handOn, remark } from '../output/output.ts';
import { openBrowser } from './browser.ts';
import { otherEra } from './other-era.ts';
import { PastedSignIn } from './paste.ts';
import { resolvingFetch, tellUnused } from './resolve.ts';
import { makeClient } from './sdk.ts';
import { relayStderr } from './server-stderr.ts';
import { type CliTarget, nameOfTarget, parseTarget, tellNoEnv, withEnv } from './target.ts';
import { tracedFetch, traceTransport } from './trace.ts';
import { beforeSignals, unlessInterrupted, whileWaiting } from './waiting.ts';

/** The connected client of a command. */
export interface Connected {
  readonly client: Awaited<ReturnType<typeof makeClient>>;
  readonly valise: ClientValise;
  /** Reports, after a failed call, that the server stores state with clients but none is kept for it here. */
  warnIfUnkept(): void;
  close(): Promise<void>;
}

/** Connects to TARGET with the given options and with everything that Valise keeps for it. */
export async function connectTo(to: string | CliTarget, options: ConnectOptions): Promise<Connected> {
  const target = withEnv(typeof to === 'string' ? parseTarget(to) : to, options.env);
  const answers = answersOf(options);
  const valise = await openFor(options);
  let client: Connected['client'] | undefined;
  let unasked = (): readonly string[] => [];
  let closing: Promise<void> | undefined;
  let ignore: (() => void) | undefined;
  let isTried = false;
  const leave = async (): Promise<void> => {
    try {
      await client?.close();
      await valise.close();
      for (const name of unasked())
        remark(`valise: --answer ${clean(name)} was not used: the server did not ask for it.`);
    } finally {
      ignore?.();
      if (isTried) tellNoUse(target, options);
    }
  };
  // A caller that closes while a signal handler does waits for the same promise.
  const close = (): Promise<void> => (closing ??= leave());
  try {
    client = await makeClient({ sdk: options.sdk, era: options.era, capabilities: ELICITATION });
    const notAsked = await setAnswerer(client, options.sdk, answers);
    isTried = true;
    await connectWith(valise, client, target, options);
    // Without this, a server that does not notice the end of its input would be left running.
    if (target.kind === 'stdio') ignore = beforeSignals(close);
    unasked = notAsked;
    const capabilities = client.getServerCapabilities();
    return { client, valise, close, warnIfUnkept: () => warnIfUnkept(target, options, capabilities) };
  } catch (error) {
    await close().catch((late: unknown) => remark(String(late)));
    throw otherEra(error, options) ?? error;
  }
}

/** Reports which options had no effect, because that may be why the server was not found. */
function tellNoUse(target: CliTarget, options: ConnectOptions): void {
  tellUnused(options.resolve);
  tellNoHeaders(target, options);
  tellNoEnv(target, options.env);
}

/** Reports that headers are sent only over HTTP. Omits their values, which may be secrets. */
function tellNoHeaders(target: CliTarget, { header }: ConnectOptions): void {
  if (target.kind === 'http') return;
  for (const name of Object.keys(header))
    remark(`valise: --header ${name} was not used: a server that is a command is sent no headers.`);
}

/** Connects a client. All runs of a command over HTTP share one session, like runs of curl with one cookie jar. */
function connectWith(
  valise: ClientValise,
  client: Parameters<ClientValise['connect']>[0],
  target: CliTarget,
  options: ConnectOptions,
): Promise<void> {
  const { url, http, transport, wait } = wayTo(valise, target, options);
  const connected = transport
    ? valise.connect(client, transport)
    : valise.connect(client, url, { ...http, jarLifetime: 'kept' });
  // Closes the transport, not the client: a client that is still probing for the era has no transport yet.
  return wait(connected, async () => transport?.close());
}

/** How the user's options lead to a server: a URL with options of the connection, or a transport. */
type Way = (
  | { readonly url: URL; readonly http: HttpOptions; readonly transport?: undefined }
  | { readonly transport: TransportLike; readonly url?: undefined; readonly http?: undefined }
) & {
  /** Waits for the connection, and says what it waits for. Calls `close` if the user interrupts it. */
  wait(connected: Promise<void>, close: () => Promise<void>): Promise<void>;
};

/** Returns how a target is reached. */
export function wayTo(valise: ClientValise, target: CliTarget, options: ConnectOptions): Way {
  let waitedFor = `${nameOfTarget(target)} to answer`;
  const pasted = options.browser === false ? new PastedSignIn() : undefined;
  const wait: Way['wait'] = (connected, close) => {
    const release = async (): Promise<void> => {
      await close();
      await valise.close();
    };
    return whileWaiting(
      () => waitedFor,
      () => unlessInterrupted(connected, release),
    ).finally(() => pasted?.close());
  };
  if (target.kind === 'stdio') {
    const transport = new StdioClientTransport({ stderr: 'pipe', ...target.command });
    transport.onerror = printOverlong;
    relayStderr(transport, handOn);
    if (options.trace) traceTransport(transport);
    return { transport, wait };
  }
  valise.on('sign-in-elsewhere', () => {
    waitedFor = 'you to sign in where another process asks for it';
    remark('valise: another process has opened a page to sign in; waiting for what comes of it.');
  });
  const redirect = (page: URL): unknown => {
    waitedFor = `you to ${pasted ? 'paste where the sign-in has led' : 'sign in with the browser'}`;
    return pasted ? pasted.redirect(page) : openBrowser(page);
  };
  const fetch = resolvingFetch(options.resolve);
  const http: HttpOptions = {
    headers: options.header,
    fetch: options.trace ? tracedFetch(target.url, fetch) : fetch,
    // With an `Authorization` header of their own, users are already signed in.
    ...(!hasAuthorization(options.header) && { auth: { redirect, port: options.redirectPort } }),
  };
  return { url: target.url, http, wait };
}

/** Whether the user passes an `Authorization` header. */
export function hasAuthorization(headers: Readonly<Record<string, string>>): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === 'authorization');
}

function answersOf({ answer = [] }: ConnectOptions): AnswerSource {
  return {
    given: parseAnswers(answer),
    interactive: process.stdin.isTTY === true && process.stderr.isTTY === true,
  };
}

type KeptOptions = Pick<
  ConnectOptions,
  'store' | 'keyFile' | 'principal' | 'allowLocal' | 'insecurePlaintext' | 'recordEvents'
>;

/** Like {@link openFor}, for commands that store nothing new: they do not create a store that does not exist yet. */
export function openKept(options: KeptOptions): Promise<ClientValise> {
  const file = fileOf(storeUrl(options.store));
  if (file === undefined || isThere(file)) return openFor(options);
  if (options.store !== undefined || process.env['VALISE_STORE'] !== undefined)
    remark(`valise: There is no store in ${clean(file)} yet.`);
  return openFor({ ...options, store: 'memory:' });
}

/** Opens a Valise with the store, keys and principal that the options name. */
export async function openFor(options: KeptOptions): Promise<ClientValise> {
  const { principal, allowLocal, insecurePlaintext, recordEvents } = options;
  if (principal === '')
    throw new UsageError('invalid-argument', '--principal has an empty name.', {
      next: 'Say whose state it is, or leave the option out.',
    });
  const keys = keysIfAny(options, 'VALISE_CLIENT_KEYS');
  const valise = await openValise({
    store: storeUrl(options.store),
    principal,
    allowLocal,
    insecurePlaintext,
    recordEvents,
    keys,
  });
  printEvents(valise);
  return valise;
}

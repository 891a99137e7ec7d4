import { type ClientValise, LeaveOpen, ValiseError } from 'mcp-valise/client';
import { instrument, StdioClientTransport } from 'mcp-valise/internal';
import { ELICITATION } from '../../ask/handler.ts';
import { openBrowser } from '../../connection/browser.ts';
import { hasAuthorization } from '../../connection/connect.ts';
import { resolvingFetch } from '../../connection/resolve.ts';
import { makeClient } from '../../connection/sdk.ts';
import { relayStderr } from '../../connection/server-stderr.ts';
import { type CliTarget, nameOfTarget } from '../../connection/target.ts';
import type { ConnectOptions } from '../../options/options.ts';
import { handOn } from '../../output/output.ts';
import { type Carried, fingerprintOf } from '../../tour/carried.ts';
import { type Step, stepOf } from '../../tour/step.ts';
import { watchedFetch } from '../../tour/watched-fetch.ts';
import type { Feed } from '../feed.ts';

/** A client of the console that is connected to a server. */
export type LinkedClient = Awaited<ReturnType<typeof makeClient>>;

/** The lane of the console itself. */
const OWN_LANE = 'console';

/** How many servers the console stays connected to. */
const MOST = 16;

/** The connections that the console opens to call servers and to answer their questions, one for each server. */
export class Links {
  readonly #valise: ClientValise;
  readonly #options: ConnectOptions;
  readonly #feed: Feed;
  readonly #links = new Map<string, Promise<LinkedClient>>();

  constructor(valise: ClientValise, options: ConnectOptions, feed: Feed) {
    this.#valise = valise;
    this.#options = options;
    this.#feed = feed;
  }

  /** Returns a client that is connected to this server. A connection that was lost is opened again. */
  async to(target: CliTarget, options = this.#options): Promise<LinkedClient> {
    const key = `${options === this.#options ? '' : 'other '}${JSON.stringify(target.kind === 'http' ? target.url.href : target.command)}`;
    const known = this.#links.get(key);
    if (known) return known;
    if (this.#links.size >= MOST)
      throw new ValiseError('limit-reached', `The console is connected to ${MOST} servers already.`, {
        next: 'Start it again.',
      });
    const opening = this.#open(target, options, () => this.#links.delete(key));
    this.#links.set(key, opening);
    opening.catch(() => this.#links.delete(key));
    return opening;
  }

  async close(): Promise<void> {
    const open = await Promise.allSettled(this.#links.values());
    await Promise.allSettled(
      open.map((each) => (each.status === 'fulfilled' ? each.value.close() : undefined)),
    );
  }

  async #open(target: CliTarget, options: ConnectOptions, lost: () => void): Promise<LinkedClient> {
    const { sdk, header, resolve, redirectPort } = options;
    const client = await makeClient({ ...options, capabilities: ELICITATION });
    // Questions stay open for the inbox; nothing is answered behind the user's back.
    if (sdk === 'v2')
      client.setRequestHandler('elicitation/create', () => {
        throw new LeaveOpen();
      });
    const lane = nameOfTarget(target);
    const see = (step: Step): void => this.#see(step);
    client.onclose = lost;
    if (target.kind === 'stdio') {
      const transport = new StdioClientTransport({ stderr: 'pipe', ...target.command });
      relayStderr(transport, handOn);
      watchTransport(transport, lane, see);
      await this.#valise.connect(client, transport);
      return client;
    }
    const fetch = watchedFetch(target.url, { client: OWN_LANE, server: lane }, see, resolvingFetch(resolve));
    const auth = { redirect: (page: URL) => openBrowser(page), port: redirectPort };
    await this.#valise.connect(client, target.url, {
      headers: header,
      fetch,
      jarLifetime: 'kept',
      ...(!hasAuthorization(header) && { auth }),
    });
    return client;
  }

  #see({ message: _, ...step }: Step): void {
    const isAnswer = step.what.endsWith(' again');
    const { says, ...rest } = step;
    this.#feed.add({
      kind: 'message',
      ...rest,
      // What the user answered is between the user and the server.
      ...(says !== undefined && { says: isAnswer ? 'answers of the user' : says }),
      carried: step.carried.map(withoutId),
    });
    this.#feed.changed('state', 'servers', 'questions');
  }
}

/** Replaces a session id with its fingerprint, because anybody who has the id may be able to use the session. */
function withoutId(one: Carried): Carried {
  const isId = one.what === 'Mcp-Session-Id' || one.what === 'session id';
  return isId && typeof one.value === 'string' ? { what: one.what, secret: fingerprintOf(one.value) } : one;
}

function watchTransport(transport: StdioClientTransport, lane: string, see: (step: Step) => void): void {
  instrument(
    transport,
    {},
    {
      inbound(message) {
        see(stepOf({ from: lane, to: OWN_LANE }, message));
        return message;
      },
      outbound(message) {
        see(stepOf({ from: OWN_LANE, to: lane }, message));
        return message;
      },
    },
  );
}

import { makeHttpTransport } from '../../client/http.ts';
import { instrument } from '../../link/instrument.ts';
import { StdioClientTransport } from '../../link/stdio-client.ts';
import type { TransportLike } from '../../link/transport.ts';
import { type Announced, isResponse, type Result, readAnnounced } from '../../wire/index.ts';
import { explain } from '../exit.ts';
import type { ConnectOptions } from '../options.ts';
import { resolvingFetch } from '../resolve.ts';
import { type EraChoice, makeClient } from '../sdk.ts';
import { type CliTarget, parseTarget } from '../target.ts';
import { type Finding, fail, ok, warn } from './check.ts';

/** What a target can do in one era. */
interface Seen {
  readonly introduction: Result | undefined;
  readonly families: Announced;
  readonly session: boolean;
  /** By how many seconds its clock is ahead of ours. */
  readonly skew: number | undefined;
}

const MEANING = {
  state: [
    'the jar',
    'State that it sets travels with the client.',
    'It sets no state; nothing to do unless you expected a jar.',
  ],
  sessions: [
    'sessions',
    'valise call --session works.',
    'Data-layer sessions are not offered; install Valise on the server with the option sessions.',
  ],
  rounds: [
    'rounds',
    'Its questions survive the death of an instance.',
    'Its questions live in its memory; install Valise on the server to have them carried.',
  ],
} as const;

/** Connects in each era and tells what works. */
export async function checkTarget(text: string, options: ConnectOptions): Promise<Finding[]> {
  const findings: Finding[] = [];
  const seen: Partial<Record<'legacy' | 'modern', Seen>> = {};
  for (const era of ['legacy', 'modern'] as const) {
    try {
      seen[era] = await look(text, options, era);
      findings.push(
        ok(`era ${era}`, `The server speaks ${era === 'modern' ? '2026-07-28' : version(seen[era])}.`),
      );
    } catch (error) {
      findings.push(
        warn(
          `era ${era}`,
          explain(error),
          `Use --era ${era === 'modern' ? 'legacy' : 'modern'} with this server, or auto.`,
        ),
      );
    }
  }
  const best = seen.modern ?? seen.legacy;
  if (!best) {
    return [
      ...findings,
      fail(
        'target',
        `${text} could not be reached in either era.`,
        'Check the URL or the command, and whether it asks for sign-in.',
      ),
    ];
  }
  return [...findings, ...families(seen), ...transport(seen), ...clock(best)];
}

function version(seen: Seen | undefined): string {
  return String(seen?.introduction?.['protocolVersion'] ?? 'a version it did not name');
}

function families(seen: Partial<Record<'legacy' | 'modern', Seen>>): Finding[] {
  return (['state', 'sessions', 'rounds'] as const).map((family) => {
    const eras = (['legacy', 'modern'] as const).filter((era) => {
      const announced = seen[era]?.families[family];
      return Array.isArray(announced) ? announced.length > 0 : announced;
    });
    const [name, works, missing] = MEANING[family];
    return eras.length > 0
      ? ok(name, `Offered in ${eras.join(' and ')}. ${works}`)
      : warn(name, 'Not offered by this server.', missing);
  });
}

function transport({ legacy }: { readonly legacy?: Seen }): Finding[] {
  if (!legacy?.session) return [];
  return [ok('resume', 'It gives sessions of the transport, and a restarted client goes on in them.')];
}

function clock({ skew }: Seen): Finding[] {
  if (skew === undefined) return [];
  if (Math.abs(skew) <= 60) return [ok('clock', `Its clock and ours differ by ${Math.abs(skew)} s.`)];
  return [
    warn(
      'clock',
      `Its clock is ${Math.abs(skew)} s ${skew > 0 ? 'ahead of' : 'behind'} ours; seals allow 60 s.`,
      'Let both machines set their clocks by NTP.',
    ),
  ];
}

async function look(text: string, options: ConnectOptions, era: EraChoice): Promise<Seen> {
  let introduction: Result | undefined;
  let skew: number | undefined;
  const client = await makeClient({ sdk: 'v2', era });
  const transport = await transportTo(parseTarget(text), options, (response) => {
    const date = Date.parse(response.headers.get('date') ?? '');
    if (!Number.isNaN(date)) skew = Math.round((date - Date.now()) / 1000);
  });
  instrument(
    transport,
    {},
    {
      inbound(message) {
        if (isResponse(message) && 'result' in message && message.result['capabilities'])
          introduction = message.result;
        return message;
      },
    },
  );
  try {
    await client.connect(transport);
    const known = introduction ?? ({ capabilities: client.getServerCapabilities() } as Result);
    return {
      introduction: known,
      families: readAnnounced(known['capabilities']),
      session: transport.sessionId !== undefined,
      skew,
    };
  } finally {
    await client.close();
  }
}

/** Without Valise on it: what is looked at is the server as it is. */
async function transportTo(
  target: CliTarget,
  { resolve, header }: ConnectOptions,
  onResponse: (response: Response) => void,
): Promise<TransportLike> {
  if (target.kind === 'stdio') return new StdioClientTransport({ ...target.command, stderr: 'ignore' });
  const base = resolvingFetch(resolve);
  const fetch = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(header)) headers.set(name, value);
    const response = await base(url, { ...init, headers });
    onResponse(response);
    return response;
  };
  return makeHttpTransport('v2', target.url, { fetch });
}

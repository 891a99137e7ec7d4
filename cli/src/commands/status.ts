import type { Command } from 'commander';
import type { ClientValise } from 'mcp-valise/client';
import { type Revoked, redactUrls } from 'mcp-valise/internal';
import { openKept } from '../connection/connect.ts';
import { parseUrl } from '../connection/target.ts';
import { type ConnectOptions, keptOptions } from '../options/options.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { print, printJson, printTable, when } from '../output/output.ts';

type KeptOptions = Pick<ConnectOptions, 'store' | 'keyFile' | 'principal' | 'json' | 'insecurePlaintext'>;

/** `valise status [TARGET]` and `valise logout TARGET`: the stored state of HTTP connections. */
export function statusCommand(program: Command, exit: SetExit): void {
  keptOptions(
    program
      .command('status')
      .description('show what is kept of connections: session, version, sign-in')
      .argument('[target]', 'a URL'),
  )
    .addHelpText('after', '\nExample:\n  valise status https://vault.example.com/mcp')
    .action((target: string | undefined, options: KeptOptions) =>
      withValise(options, (valise) => status(valise, target, options)),
    );
  keptOptions(
    program
      .command('logout')
      .description('revoke the tokens of a server and forget its session and sign-in')
      .argument('<target>', 'a URL'),
  )
    .addHelpText('after', '\nExample:\n  valise logout https://vault.example.com/mcp')
    .action((target: string, options: KeptOptions) =>
      withValise(options, async (valise) => exit(await logout(valise, target, options))),
    );
}

async function withValise(
  options: KeptOptions,
  work: (valise: ClientValise) => Promise<void>,
): Promise<void> {
  const valise = await openKept(options);
  try {
    await work(valise);
  } finally {
    await valise.close();
  }
}

async function status(
  valise: ClientValise,
  target: string | undefined,
  { json }: KeptOptions,
): Promise<void> {
  const url = target === undefined ? undefined : parseUrl(target);
  const connections = (await valise.connections.list(url)).map((each) => ({
    ...each,
    target: redactUrls(each.target),
    ...(each.issuer !== undefined && { issuer: redactUrls(each.issuer) }),
  }));
  if (json) {
    printJson({ connections });
    return;
  }
  printTable(
    ['SERVER', 'SESSION', 'VERSION', 'SINCE', 'SIGNED IN', 'TOKEN UNTIL'],
    connections.map((each) => [
      each.target,
      each.session ?? '-',
      each.protocolVersion ?? '-',
      when(each.savedAt?.getTime()),
      each.signedIn ? (each.issuer ?? 'yes') : 'no',
      `${when(each.tokenExpiresAt?.getTime())}${each.renewable ? ' (renewable)' : ''}`,
    ]),
    url
      ? `Nothing is kept of a connection with ${redactUrls(url.href)}.`
      : 'Nothing is kept of any connection.',
  );
}

/** What happened to the tokens at the authorization server. */
const LEFT: Readonly<Record<Revoked, string>> = {
  none: 'forgotten; no tokens were found',
  revoked: 'signed out and forgotten',
  unreachable:
    'forgotten here. The authorization server could not be reached: the tokens are good until they expire, so sign out there too.',
  refused:
    'forgotten here. The authorization server did not revoke the tokens: they are good until they expire, so sign out there too.',
  'needs-secret':
    'forgotten here. The tokens were not revoked: that takes the secret of the client that got them, which is not kept. They are good until they expire, so sign out at the authorization server too.',
};

async function logout(valise: ClientValise, target: string, { json }: KeptOptions): Promise<number> {
  let tokens: Revoked = 'none';
  const url = parseUrl(target);
  const forgotten = await valise.connections.logout(url, {
    onRevoked: (how) => {
      tokens = how;
    },
  });
  if (json) printJson({ forgotten, tokens });
  else print(forgotten ? LEFT[tokens] : `Nothing was kept of ${redactUrls(url.href)}.`);
  return forgotten ? EXIT.ok : EXIT.failed;
}

import type { Command } from 'commander';
import type { ClientValise } from '../../client/index.ts';
import { openFor } from '../connect.ts';
import { EXIT, type SetExit } from '../exit.ts';
import { type ConnectOptions, keptOptions } from '../options.ts';
import { print, printJson, printTable, when } from '../output.ts';

type KeptOptions = Pick<ConnectOptions, 'store' | 'principal' | 'json' | 'insecurePlaintext'>;

/** `valise status [TARGET]` and `valise logout TARGET`: what is kept of connections over HTTP. */
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
  const valise = await openFor(options);
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
  const connections = await valise.connections.list(target);
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
    'Nothing is kept of any connection.',
  );
}

async function logout(valise: ClientValise, target: string, { json }: KeptOptions): Promise<number> {
  const forgotten = await valise.connections.logout(target);
  if (json) printJson({ forgotten });
  else print(forgotten ? 'signed out and forgotten' : `Nothing was kept of ${target}.`);
  return forgotten ? EXIT.ok : EXIT.failed;
}

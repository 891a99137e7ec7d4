import { type Command, Option } from 'commander';
import type { ClientValise, HostTransport, TransportOptions } from 'mcp-valise/client';
import { checkStoreUrl, type Message } from 'mcp-valise/internal';
import { Bridge } from '../bridge/bridge.ts';
import {
  type BridgeOptions,
  configRemarks,
  flagsOf,
  HOSTS,
  type HostName,
  hostConfig,
  nameOf,
  storeFromAnywhere,
} from '../bridge/config.ts';
import { Host } from '../bridge/host.ts';
import { forgetPending, OpenQuestions } from '../bridge/open-questions.ts';
import { OLDER_ONLY, TransportServer } from '../bridge/server.ts';
import { openFor, wayTo } from '../connection/connect.ts';
import { tellUnused } from '../connection/resolve.ts';
import { installedSdk } from '../connection/sdk.ts';
import { parseTarget, tellNoEnv, withEnv } from '../connection/target.ts';
import { SIGNALS } from '../connection/waiting.ts';
import { type ConnectOptions, connectOptions, isLasting, storeUrl, traceOption } from '../options/options.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { print, remark, shellWord, tellPerson } from '../output/output.ts';
import { tellUnasked } from '../output/pending.ts';

/** `valise connect TARGET`: a stdio server for any host that bridges to another server and adds what the host lacks. */
export function connectCommand(program: Command, exit: SetExit): void {
  traceOption(
    withoutForeign(
      connectOptions(
        program
          .command('connect')
          .description('bridge a host over stdio to a server, and keep its state, session and sign-in')
          .argument('<target>', "a URL, or 'stdio:COMMAND'"),
      ),
    ),
  )
    .option(
      '--session <new|NAME|none>',
      'data-layer session of this host: a new one, one of this name, or none',
      'none',
    )
    .addOption(
      new Option('--print-config <host>', 'print the configuration for a host instead').choices(HOSTS),
    )
    .addHelpText(
      'after',
      `
Examples:
  valise connect --print-config claude https://shop.example.com/mcp
  valise connect 'stdio:npx -y @modelcontextprotocol/server-everything'

A host that knows only 2026-07-28 reaches older servers with --era modern.`,
    )
    .action(async (target: string, options: BridgeOptions) => {
      if (options.printConfig) printConfig(options.printConfig, target, options);
      else exit(await bridge(target, options));
    });
}

/**
 * Removes options that do not apply: there is no result to print as JSON, and the client and standard input belong to the
 * host.
 */
function withoutForeign(command: Command): Command {
  const options = command.options as Option[];
  for (const name of ['--json', '--sdk', '--no-browser'])
    options.splice(
      options.findIndex(({ long }) => long === name),
      1,
    );
  return command;
}

function printConfig(host: HostName, text: string, options: BridgeOptions): void {
  const store = options.store ?? process.env['VALISE_STORE'];
  checkStoreUrl(storeUrl(store));
  print(hostConfig(host, nameOf(parseTarget(text)), [text, ...flagsOf(options)], store));
  for (const line of configRemarks(host, text, options, process.env)) remark(line);
}

/** The bridge cannot tell a host that falls back on its own from one that gives up, so the user chooses with `--era`. */
const NEWER = { legacy: 'never', auto: 'insisting', modern: 'always' } as const;

async function bridge(text: string, options: BridgeOptions): Promise<number> {
  const target = withEnv(parseTarget(text), options.env);
  tellPerson(`To have a host start it: valise connect --print-config claude ${shellWord(text)}`);
  const host = new Host(process.stdin, process.stdout);
  const isOlderOnly = target.kind === 'http' && installedSdk('client') === 'v1';
  if (isOlderOnly) remark(`valise connect: ${OLDER_ONLY}`);
  const valise = await openFor(options);
  const way = wayTo(valise, target, options);
  const transport = hostTransport(valise, way, options.session);
  const receive = (message: Message): void =>
    questions ? questions.fromServer(message) : between.fromServer(message);
  const server = new TransportServer(transport, { receive, isOlderOnly });
  const questions = isLasting(options.store)
    ? new OpenQuestions({
        server,
        receive: (message) => between.fromServer(message),
        pending: valise.pending,
        tell: (round, era) => tellUnasked(round, era, answering(options)),
      })
    : undefined;
  const between = new Bridge({
    toHost: (message) => host.send(message),
    server: questions ?? server,
    newer: NEWER[options.era],
    takenBack: (asking, reason) => void forgetPending(asking, reason, valise.pending),
  });
  valise.on('renewed', () => between.renewed());
  try {
    await way.wait(transport.start(), () => transport.close());
    const ended = await Promise.race([
      forward(host, between),
      dismissed(),
      server.closed.then(() => 'server' as const),
    ]);
    if (ended === 'host') return EXIT.ok;
    remark('valise connect: the server is gone.');
    return EXIT.failed;
  } finally {
    await server.close();
    await valise.close();
    tellUnused(options.resolve);
    tellNoEnv(target, options.env);
    process.stdin.destroy();
  }
}

/**
 * Returns the transport to the server. A host without data-layer sessions must not see them: servers that need a session
 * use the transport's, which belongs to this host alone.
 */
function hostTransport(
  valise: ClientValise,
  { url, http, transport }: ReturnType<typeof wayTo>,
  session: string,
): HostTransport {
  const ownSession = session === 'new';
  const options: TransportOptions = {
    sessionName: session !== 'none' && (ownSession ? 'host' : session),
    ownSession,
  };
  return transport
    ? valise.transport(transport, options)
    : valise.transport(url, { ...options, ...http, jarLifetime: 'kept', resume: 'alone' });
}

/** Returns the options with which `valise pending answer` finds the rounds that this bridge stored. */
function answering({ store: given, era: _era, ...options }: BridgeOptions): Partial<ConnectOptions> {
  const store = given ?? process.env['VALISE_STORE'];
  return { ...options, ...(store !== undefined && { store: storeFromAnywhere(store) }) };
}

/**
 * Resolves on a signal, which hosts send if the bridge does not exit. Dying from it would leave behind a stdio server that
 * does not notice the end of its input.
 */
function dismissed(): Promise<'host'> {
  return new Promise((resolve) => {
    for (const signal of SIGNALS) process.on(signal, () => resolve('host'));
  });
}

async function forward(host: Host, between: Bridge): Promise<'host'> {
  for await (const message of host.messages()) between.fromHost(message);
  return 'host';
}

import { type Command, Option } from 'commander';
import type { ClientSession, ClientSessions } from '../../client/index.ts';
import { isRequest, type Message } from '../../wire/index.ts';
import { Bridge } from '../bridge/bridge.ts';
import { Host } from '../bridge/host.ts';
import { HOSTS, type HostName, hostConfig, nameOf } from '../bridge/host-config.ts';
import { Relay } from '../bridge/relay.ts';
import { connectWith, openFor } from '../connect.ts';
import { EXIT, explain, type SetExit } from '../exit.ts';
import { type ConnectOptions, connectOptions } from '../options.ts';
import { print, remark } from '../output.ts';
import { parseTarget } from '../target.ts';

interface BridgeOptions extends ConnectOptions {
  readonly printConfig?: HostName;
  readonly session: string;
}

/** `valise connect TARGET`: a stdio server for any host that bridges to another one, with everything the host lacks. */
export function connectCommand(program: Command, exit: SetExit): void {
  connectOptions(
    program
      .command('connect')
      .description('bridge a host over stdio to a server, and keep its state, session and sign-in')
      .argument('<target>', "a URL, or 'stdio:COMMAND'"),
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
      if (options.printConfig)
        print(hostConfig(options.printConfig, nameOf(target), [target, ...flagsOf(options)]));
      else exit(await bridge(target, options));
    });
}

/** A host that falls back by itself cannot be told from one that gives up, unless its user says so. */
const NEWER = { legacy: 'never', auto: 'insisting', modern: 'always' } as const;

async function bridge(text: string, options: BridgeOptions): Promise<number> {
  const target = parseTarget(text);
  const host = new Host(process.stdin, process.stdout);
  const valise = await openFor(options);
  const relay = new Relay({
    toHost: (message, failure) => between.fromServer(message, failure),
    http: target.kind === 'http',
  });
  const between = new Bridge({
    toHost: (message) => host.send(message),
    toServer: (message) => inSession(message, () => relay.send(message)),
    newer: NEWER[options.era],
  });
  const inSession = sessionOf(options.session, () => valise.sessions(relay));
  try {
    await connectWith(valise, relay, target, options);
    const over = Promise.race([forward(host, between), relay.closed.then(() => 'server' as const)]);
    if ((await over) === 'host') return EXIT.ok;
    remark('valise connect: the server is gone.');
    return EXIT.failed;
  } finally {
    await relay.close();
    await valise.close();
  }
}

/** What comes before there can be a session. */
const BEFORE = new Set(['initialize', 'server/discover', 'ping']);

/** Sends the host's requests in its session, which is made when the first of them comes. */
function sessionOf(
  name: string,
  sessions: () => ClientSessions,
): (message: Message, send: () => Promise<void>) => Promise<void> {
  if (name === 'none') return (_message, send) => send();
  let opened: Promise<ClientSession | undefined> | undefined;
  const open = async (): Promise<ClientSession | undefined> => {
    try {
      return await (name === 'new' ? sessions().create() : sessions().named(name));
    } catch (error) {
      remark(`valise connect: no session (${explain(error)}); going on without.`);
      return undefined;
    }
  };
  return async (message, send) => {
    if (!isRequest(message) || BEFORE.has(message.method)) return send();
    opened ??= open();
    const session = await opened;
    return session ? session.run(send) : send();
  };
}

/** The options that the host's configuration must hand on. */
function flagsOf({
  store,
  principal,
  allowLocal,
  era,
  header,
  session,
  insecurePlaintext,
}: BridgeOptions): string[] {
  return [
    ...(store === undefined ? [] : ['--store', store]),
    ...(principal === undefined ? [] : ['--principal', principal]),
    ...(allowLocal ? ['--allow-local'] : []),
    ...(insecurePlaintext ? ['--insecure-plaintext'] : []),
    ...(era === 'auto' ? [] : ['--era', era]),
    ...(session === 'none' ? [] : ['--session', session]),
    ...Object.entries(header).flatMap(([name, value]) => ['--header', `${name}: ${value}`]),
  ];
}

async function forward(host: Host, between: Bridge): Promise<'host'> {
  for await (const message of host.messages()) between.fromHost(message);
  return 'host';
}

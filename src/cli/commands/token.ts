import type { Command } from 'commander';
import { createSealer, inspectToken, parseKeys, SealError, type TokenDescription } from '../../seal/index.ts';
import { EXIT, type SetExit } from '../exit.ts';
import { type KeyOptions, keyOptions, keysText } from '../key-source.ts';
import { print, printJson, size, when } from '../output.ts';

interface TokenOptions extends KeyOptions {
  readonly json?: boolean;
  readonly reveal?: boolean;
  readonly subject?: string;
  readonly bind?: string;
}

/** `valise token TOKEN`: what a sealed token is, without showing what is in it. */
export function tokenCommand(program: Command, exit: SetExit): void {
  keyOptions(
    program
      .command('token')
      .description('look at a sealed token')
      .argument('<token>', 'the token, as it travels'),
  )
    .option('--reveal', 'also show the payload; needs the key, and the subject and binding where it has them')
    .option('--subject <text>', 'principal that the token belongs to')
    .option('--bind <json>', 'what the token is bound to')
    .option('--json', 'print as JSON on one line')
    .addHelpText('after', '\nExample:\n  valise token v1.mS2Vx0aQ.… --reveal')
    .action((token: string, options: TokenOptions) => exit(look(token, options)));
}

function look(token: string, options: TokenOptions): number {
  const header = inspectToken(token);
  const described = describe(token, options);
  const payload = options.reveal ? { payload: reveal(token, options) } : {};
  const report = {
    ...header,
    ...(described ?? { opens: false }),
    ...(described && { opens: true }),
    ...payload,
  };
  if (options.json) {
    printJson(report);
    return EXIT.ok;
  }
  print(`version   ${header.version}`);
  print(
    `key       ${header.kid}${described ? ' (in your keyring)' : ' (not opened: no key, or not genuine)'}`,
  );
  print(`size      ${size(header.bytes)}, ${size(header.sealedBytes)} sealed`);
  if (described) printDescription(described);
  if ('payload' in payload) print(`payload   ${JSON.stringify(payload.payload)}`);
  return EXIT.ok;
}

function printDescription(token: TokenDescription): void {
  const age = Math.max(0, Math.round((Date.now() - token.issuedAt.getTime()) / 1000));
  const bound = [token.hasSubject && 'a principal', token.isBound && 'a request or session'].filter(
    (part) => part !== false,
  );
  print(`purpose   ${token.purpose}`);
  print(`audience  ${token.audience === '' ? '-' : token.audience}`);
  print(`issued    ${when(token.issuedAt.getTime())} (${age} s ago)`);
  print(`expires   ${when(token.expiresAt.getTime())}${token.expired ? ' (over)' : ''}`);
  print(`bound to  ${bound.length > 0 ? bound.join(' and ') : 'nothing'}`);
  print(
    `payload   ${token.isReference ? 'in a store' : token.compressed ? 'inside, compressed' : 'inside'}${', not shown'}`,
  );
}

/** What the token says about itself, where a keyring is at hand that opens it. */
function describe(token: string, options: TokenOptions): TokenDescription | undefined {
  if (options.keyFile === undefined && !process.env['VALISE_KEYS']) return undefined;
  try {
    return createSealer({ keys: parseKeys(keysText(options)) }).describe(token);
  } catch (error) {
    if (error instanceof SealError) return undefined;
    throw error;
  }
}

function reveal(token: string, options: TokenOptions): unknown {
  const keys = parseKeys(keysText(options));
  const { audience, purpose } = createSealer({ keys }).describe(token);
  return createSealer({ keys, audience }).open(token, {
    purpose,
    ...(options.subject !== undefined && { subject: options.subject }),
    ...(options.bind !== undefined && { bind: JSON.parse(options.bind) }),
  });
}

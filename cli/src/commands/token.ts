import type { Command } from 'commander';
import type { Json } from 'mcp-valise/internal';
import { createSealer, inspectToken, SealError, type TokenDescription } from 'mcp-valise/seal';
import { CommandError, UsageError } from '../errors.ts';
import { type KeyOptions, keyOptions, keysIfAny, readKeys } from '../options/key-source.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { clean, print, printJson, size, when } from '../output/output.ts';

interface TokenOptions extends KeyOptions {
  readonly json?: boolean;
  readonly reveal?: boolean;
  readonly subject?: string;
  readonly bind?: string;
}

/** `valise token TOKEN`: describes a sealed token without showing its contents. */
export function tokenCommand(program: Command, exit: SetExit): void {
  keyOptions(
    program
      .command('token')
      .description('look at a sealed token')
      .argument('<token>', 'the token, as it travels'),
  )
    .option('--reveal', 'also show the payload; needs the key, and the subject and binding if it has them')
    .option('--subject <text>', 'principal that the token belongs to')
    .option('--bind <json>', 'what the token is bound to')
    .option('--json', 'print as JSON on one line')
    .addHelpText('after', '\nExample:\n  valise token v1.mS2Vx0aQ.… --reveal')
    .action((token: string, options: TokenOptions) => exit(look(token, options)));
}

function look(token: string, options: TokenOptions): number {
  const bind = readBind(options);
  const header = inspect(token);
  const described = describe(token, options);
  if (options.reveal && !described) throw noKeyError(header.kid, options);
  const payload = options.reveal ? { payload: reveal(token, options, bind) } : {};
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
    `key       ${clean(header.kid)}${described ? ' (in your keyring)' : ' (not opened: no key, or not genuine)'}`,
  );
  print(`size      ${size(header.bytes)}, ${size(header.sealedBytes)} sealed`);
  if (described) printDescription(described, 'payload' in payload);
  if ('payload' in payload) print(`payload   ${clean(JSON.stringify(payload.payload) ?? '-')}`);
  return EXIT.ok;
}

function printDescription(token: TokenDescription, revealed: boolean): void {
  const age = Math.max(0, Math.round((Date.now() - token.issuedAt.getTime()) / 1000));
  const bound = [token.hasSubject && 'a principal', token.isBound && 'a request or session'].filter(
    (part) => part !== false,
  );
  print(`purpose   ${clean(token.purpose)}`);
  print(`audience  ${token.audience === '' ? '-' : clean(token.audience)}`);
  print(`issued    ${when(token.issuedAt.getTime())} (${age} s ago)`);
  print(`expires   ${when(token.expiresAt.getTime())}${token.expired ? ' (over)' : ''}`);
  print(`bound to  ${bound.length > 0 ? bound.join(' and ') : 'nothing'}`);
  const where = token.isReference ? 'in a store' : token.compressed ? 'inside, compressed' : 'inside';
  if (!revealed) print(`payload   ${where}, not shown`);
}

function inspect(token: string): ReturnType<typeof inspectToken> {
  try {
    return inspectToken(token);
  } catch (cause) {
    if (!(cause instanceof SealError)) throw cause;
    throw new CommandError('not-a-token', 'This is not a sealed token of Valise, or not all of it.', {
      next: 'Copy it whole, from "v1." to its end.',
    });
  }
}

/** Returns the token's own description if an available keyring opens it. */
function describe(token: string, options: TokenOptions): TokenDescription | undefined {
  const keys = keysIfAny(options);
  try {
    return keys && createSealer({ keys }).describe(token);
  } catch (error) {
    if (error instanceof SealError) return undefined;
    throw error;
  }
}

function readBind({ bind }: TokenOptions): Json | undefined {
  try {
    return bind === undefined ? undefined : (JSON.parse(bind) as Json);
  } catch {
    throw new UsageError('invalid-argument', `--bind is not JSON: ${bind}.`, {
      next: `Write for example --bind '["tools/call"]'.`,
    });
  }
}

function noKeyError(kid: string, options: TokenOptions): CommandError {
  const from = options.keyFile ?? 'VALISE_KEYS';
  const isThere = keysIfAny(options)?.kids.includes(kid);
  if (isThere)
    return new CommandError(
      'not-revealed',
      `The token names the key ${kid} of ${from}, and is not genuine.`,
      {
        next: 'Copy it whole, from "v1." to its end.',
      },
    );
  return new CommandError('not-revealed', `The payload takes the key ${kid}, which ${from} does not hold.`, {
    next: 'Give the keyring of the server that sealed it, as VALISE_KEYS or with --key-file PATH.',
  });
}

function reveal(token: string, options: TokenOptions, bind: Json | undefined): unknown {
  const keys = readKeys(options);
  try {
    const { audience, purpose } = createSealer({ keys }).describe(token);
    return createSealer({ keys, audience }).open(token, {
      purpose,
      ...(options.subject !== undefined && { subject: options.subject }),
      ...(bind !== undefined && { bind }),
    });
  } catch (cause) {
    if (!(cause instanceof SealError)) throw cause;
    throw new CommandError(
      'not-revealed',
      `The payload cannot be shown (${cause.reason.replaceAll('-', ' ')}).`,
      {
        next: 'It takes the key, and --subject and --bind as the server gave them.',
      },
    );
  }
}

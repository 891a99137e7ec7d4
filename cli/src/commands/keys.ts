import { writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { generateKey, type Keyring, parseKeys } from 'mcp-valise/seal';
import { dropPlain, openStore, sealInPlace } from 'mcp-valise/store';
import { CommandError } from '../errors.ts';
import {
  type KeyOptions,
  keyFileText,
  keyOptions,
  keysText,
  PHASES,
  type Phase,
  phaseIn,
  readKeys,
} from '../options/key-source.ts';
import { checkThere, storeOption, storeUrl } from '../options/options.ts';
import { clean, print, printJson, printTable, remark, shellWord } from '../output/output.ts';

/** `valise keys generate|rotate|seal|list`. */
export function keysCommand(program: Command): void {
  const keys = program
    .command('keys')
    .description('make, rotate and list the keys that seal state, and seal a store')
    .addHelpText(
      'after',
      `
Examples:
  export VALISE_KEYS=$(valise keys generate)
  valise keys list
  valise keys rotate --phase add --key-file now.env --out next.env`,
    );
  keys
    .command('generate')
    .description('make a new key')
    .option('--out <path>', 'write it to a new file that only you can read, instead of printing it')
    .addHelpText('after', '\nExample:\n  export VALISE_KEYS=$(valise keys generate)')
    .action(({ out }: { out?: string }) => give(generateKey(), out));
  keyOptions(keys.command('list').description('list the ids of the keys; never the keys'))
    .option('--json', 'print as JSON on one line')
    .addHelpText('after', '\nExample:\n  valise keys list --key-file valise.env')
    .action((options: KeyOptions & { json?: boolean }) => list(options));
  keyOptions(keys.command('rotate').description('print the keyring of the next phase of a rotation'))
    .addOption(
      new Option(
        '--phase <phase>',
        'add: a new key that opens only; promote: it seals; drop: the old ones go',
      )
        .choices(PHASES)
        .makeOptionMandatory(),
    )
    .option('--out <path>', 'write it to a new file that only you can read, instead of printing it')
    .addHelpText(
      'after',
      `
A rotation that breaks no open dialogue takes three roll-outs, each on all instances before the next:
  1. valise keys rotate --phase add        every instance can open what the new key will seal
  2. valise keys rotate --phase promote    the new key seals
  3. valise keys rotate --phase drop       after the longest lifetime of a token, the old key goes

Example:
  valise keys rotate --phase add --key-file 0.env --out 1.env`,
    )
    .action(rotate);
  storeOption(
    keys
      .command('seal')
      .description('seal all that a store holds with the first key, also what is plain so far'),
  )
    .option('--drop-plain', 'first delete what was written without keys into a store that was sealed already')
    .option('--json', 'print as JSON on one line')
    .addHelpText(
      'after',
      `
For a store that was created without keys, once; and in a rotation before --phase drop, so that nothing needs the old keys.
First stop programs that use the store without keys: they can no longer read it, and their new entries are skipped.

Examples:
  valise keys seal --key-file client.env
  valise keys seal --store redis://127.0.0.1:6379 --key-file server.env`,
    )
    .action(seal);
}

async function seal(
  options: KeyOptions & { store?: string; dropPlain?: boolean; json?: boolean },
): Promise<void> {
  const keys = readKeys(options, 'VALISE_CLIENT_KEYS');
  const url = storeUrl(options.store);
  checkThere(url);
  const dropped = options.dropPlain ? await dropFrom(url, keys) : undefined;
  const sealed = await sealInPlace(url, { keys });
  if (options.json) {
    printJson({ sealed, kid: keys.kids[0], ...(dropped && { dropped }) });
    return;
  }
  if (dropped) print(`${entries(dropped.length)} written without keys dropped`);
  for (const name of dropped ?? []) print(`  ${clean(JSON.stringify(name))}`);
  print(`${entries(sealed)} ${sealed === 1 ? 'is' : 'are'} sealed with the key ${keys.kids[0]}`);
}

async function dropFrom(url: string, keys: Keyring): Promise<string[]> {
  const store = await openStore(url, { keys });
  try {
    return await dropPlain(store);
  } finally {
    await store.close();
  }
}

function entries(count: number): string {
  return `${count} ${count === 1 ? 'entry' : 'entries'}`;
}

function rotate(options: KeyOptions & { phase: Phase; out?: string }): void {
  const before = readKeys(options).kids;
  const last = options.keyFile === undefined ? undefined : phaseIn(options.keyFile);
  if (last !== undefined) refuseOutOfTurn(options.phase, last, before, options.keyFile);
  const rotated = next(keysIn(keysText(options)), options.phase);
  give(rotated, options.out, options.phase);
  const after = parseKeys(rotated).kids;
  const [seals, ...open] = after;
  const gone = before.filter((kid) => !after.includes(kid));
  remark(
    [
      `${seals} seals`,
      ...(open.length > 0 ? [`${open.join(', ')} can open`] : []),
      ...(gone.length > 0 ? [`${gone.join(', ')} is gone: what it sealed opens no more`] : []),
    ].join('; '),
  );
  if (options.phase === 'promote' && options.out === undefined)
    remark('once only: promoting this keyring again would undo it (a file made with --out says its phase)');
}

/**
 * Rejects a phase that is out of order. A keyring does not say which of its keys is newer; the file written by a phase does.
 */
function refuseOutOfTurn(phase: Phase, last: Phase, kids: readonly string[], keyFile = ''): void {
  const turn = PHASES[(PHASES.indexOf(last) + 1) % PHASES.length];
  if (phase === turn) return;
  const next = `Next: valise keys rotate --phase ${turn} --key-file ${shellWord(keyFile)}`;
  if (phase === last)
    throw new CommandError('phase-done', `--phase ${phase} is done already: ${keyFile} comes from it.`, {
      next,
    });
  if (phase === 'drop')
    throw new CommandError(
      'not-promoted',
      `The new key ${kids.at(-1)} does not seal yet: it would be lost.`,
      {
        next,
      },
    );
  throw new CommandError(
    'phase-not-next',
    `--phase ${phase} is not next: ${keyFile} comes from --phase ${last}.`,
    {
      next,
    },
  );
}

function keysIn(text: string): string[] {
  return text.split(',').map((key) => key.trim());
}

function next(keys: readonly string[], phase: Phase): string {
  if (phase === 'add') return [...keys, generateKey()].join(',');
  if (keys.length < 2) {
    throw new CommandError('nothing-to-rotate', 'The keyring holds one key.', {
      next: 'Begin with: valise keys rotate --phase add',
    });
  }
  return phase === 'promote' ? [keys.at(-1), ...keys.slice(0, -1)].join(',') : (keys[0] as string);
}

function list(options: KeyOptions & { json?: boolean }): void {
  const { kids } = readKeys(options);
  if (options.json) printJson({ keys: kids.map((kid, at) => ({ kid, seals: at === 0 })) });
  else
    printTable(
      ['KEY', 'USE'],
      kids.map((kid, at) => [kid, at === 0 ? 'seals and opens' : 'opens']),
      'no keys',
    );
}

function give(keys: string, out: string | undefined, phase?: Phase): void {
  if (out === undefined) {
    print(keys);
    return;
  }
  try {
    writeFileSync(out, keyFileText(keys, phase), { mode: 0o600, flag: 'wx' });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new CommandError('key-file-exists', `${out} is there: keys are never written over a file.`, {
        next: 'Choose a new path.',
      });
    }
    throw new CommandError('key-file-failed', `${out} could not be made.`, {
      next: 'Is its folder there, and may you write to it?',
      cause,
    });
  }
  remark(`written to ${out}`);
}

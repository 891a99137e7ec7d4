import { writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { ValiseError } from '../../errors.ts';
import { generateKey, parseKeys } from '../../seal/index.ts';
import { type KeyOptions, keyOptions, keysText } from '../key-source.ts';
import { print, printJson, printTable, remark } from '../output.ts';

/** `valise keys generate|rotate|list`. */
export function keysCommand(program: Command): void {
  const keys = program.command('keys').description('make, rotate and list the keys that seal state');
  keys
    .command('generate')
    .description('make a new key')
    .option('--out <path>', 'write it to a new file that only you can read, instead of printing it')
    .addHelpText('after', '\nExample:\n  export VALISE_KEYS=$(valise keys generate)')
    .action(({ out }: { out?: string }) => give(generateKey(), out));
  keyOptions(keys.command('list').description('list the ids of the keys; never the keys'))
    .option('--json', 'print as JSON on one line')
    .action((options: KeyOptions & { json?: boolean }) => list(options));
  keyOptions(keys.command('rotate').description('print the keyring of the next phase of a rotation'))
    .addOption(
      new Option(
        '--phase <phase>',
        'add: a new key that opens only; promote: it seals; drop: the old ones go',
      )
        .choices(['add', 'promote', 'drop'])
        .makeOptionMandatory(),
    )
    .option('--out <path>', 'write it to a new file that only you can read, instead of printing it')
    .addHelpText(
      'after',
      `
A rotation that breaks no open dialogue takes three roll-outs, each on all instances before the next:
  1. valise keys rotate --phase add        every instance can open what the new key will seal
  2. valise keys rotate --phase promote    the new key seals
  3. valise keys rotate --phase drop       after the longest lifetime of a token, the old key goes`,
    )
    .action((options: KeyOptions & { phase: Phase; out?: string }) =>
      give(rotated(keysText(options), options.phase), options.out),
    );
}

type Phase = 'add' | 'promote' | 'drop';

function rotated(text: string, phase: Phase): string {
  parseKeys(text);
  const keys = text.split(',').map((key) => key.trim());
  if (phase === 'add') return [...keys, generateKey()].join(',');
  if (keys.length < 2) {
    throw new ValiseError('nothing-to-rotate', 'The keyring holds one key.', {
      next: 'Begin with: valise keys rotate --phase add',
    });
  }
  return phase === 'promote' ? [keys.at(-1), ...keys.slice(0, -1)].join(',') : (keys[0] as string);
}

function list(options: KeyOptions & { json?: boolean }): void {
  const { kids } = parseKeys(keysText(options));
  if (options.json) printJson({ keys: kids.map((kid, at) => ({ kid, seals: at === 0 })) });
  else
    printTable(
      ['KEY', 'USE'],
      kids.map((kid, at) => [kid, at === 0 ? 'seals and opens' : 'opens']),
      'no keys',
    );
}

function give(keys: string, out: string | undefined): void {
  if (out === undefined) {
    print(keys);
    return;
  }
  try {
    writeFileSync(out, `VALISE_KEYS=${keys}\n`, { mode: 0o600, flag: 'wx' });
  } catch (cause) {
    throw new ValiseError(
      'key-file-exists',
      `${out} could not be made: keys are never written over a file.`,
      {
        next: 'Choose a new path.',
        cause,
      },
    );
  }
  remark(`written to ${out}`);
}

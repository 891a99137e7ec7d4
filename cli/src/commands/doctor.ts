import type { Command } from 'commander';
import { tellUnused } from '../connection/resolve.ts';
import { examine } from '../doctor/examine.ts';
import type { Finding } from '../doctor/finding.ts';
import { type ConnectOptions, connectOptions } from '../options/options.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { clean, colour, print, printJson } from '../output/output.ts';

/** `valise doctor [TARGET]`: reports what works, what is missing, and how to fix it. */
export function doctorCommand(program: Command, exit: SetExit): void {
  connectOptions(
    program
      .command('doctor')
      .description('check keys, store, keychain, and what a server supports')
      .argument('[target]', "a URL, or 'stdio:COMMAND'"),
  )
    .addHelpText('after', '\nExample:\n  valise doctor https://shop.example.com/mcp')
    .action(async (target: string | undefined, options: ConnectOptions) => {
      const findings = await examine(target, options);
      if (options.json) printJson({ findings });
      else report(findings);
      tellUnused(options.resolve);
      exit(findings.some(({ status }) => status === 'fail') ? EXIT.failed : EXIT.ok);
    });
}

const MARK = {
  ok: ['ok  ', colour.green],
  warn: ['warn', colour.yellow],
  fail: ['FAIL', colour.red],
} as const;

function report(findings: readonly Finding[]): void {
  const width = Math.max(...findings.map(({ check }) => check.length));
  for (const { check, status, what, fix } of findings) {
    const [mark, paint] = MARK[status];
    print(`${mark}  ${check.padEnd(width)}  ${clean(what)}`, (line) => line.replace(mark, paint));
    if (fix !== undefined) print(`${' '.repeat(width + 8)}→ ${clean(fix)}`);
  }
  const count = (status: Finding['status']): number =>
    findings.filter((each) => each.status === status).length;
  print(`\n${count('ok')} ok, ${count('warn')} to consider, ${count('fail')} to put right`);
}

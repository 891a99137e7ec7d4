import { remark } from './output.ts';

/**
 * Tells a person at a terminal that this command expects a program on stdin, and what to do; otherwise it would seem to
 * hang.
 */
export function tellPerson(next: string): void {
  if (process.stdin.isTTY)
    remark(`valise: waiting for a program that speaks MCP on standard input. Ctrl+D ends it. ${next}`);
}

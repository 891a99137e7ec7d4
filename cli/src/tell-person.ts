import { remark } from './output.ts';

/** Says at a terminal that a program is to speak here, and what a person can do: nothing else would be seen to happen. */
export function tellPerson(next: string): void {
  if (process.stdin.isTTY)
    remark(`valise: waiting for a program that speaks MCP on standard input. Ctrl+D ends it. ${next}`);
}

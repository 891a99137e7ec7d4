import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/** A stdio server whose stderr is read. */
interface Speaking {
  readonly pid: number | null;
  readonly stderr: Readable | null;
}

/** How much of the first process's stderr is remembered, in characters. */
const MOST_REMEMBERED = 64 * 1024;

/**
 * Passes on what a stdio server writes to stderr. A server that exits on the first request is restarted in the older era;
 * lines that its first process already wrote are not repeated.
 */
export function relayStderr(server: Speaking, write: (text: string) => void): void {
  const said = new Set<string>();
  let remembered = 0;
  let first: number | null = null;
  const decoder = new StringDecoder('utf8');
  server.stderr?.on('data', (chunk: Buffer) => {
    first ??= server.pid;
    for (const line of decoder.write(chunk).split(/(?<=\n)/)) {
      if (server.pid === first && remembered < MOST_REMEMBERED) {
        said.add(line);
        remembered += line.length;
      } else if (server.pid !== first && said.has(line)) continue;
      write(line);
    }
  });
}

/** Keeps the last lines that a stdio server writes to stderr. */
export function lastLines(server: Speaking, most = 5): () => readonly string[] {
  let text = '';
  const decoder = new StringDecoder('utf8');
  let pid = server.pid;
  server.stderr?.on('data', (chunk: Buffer) => {
    if (server.pid !== pid) text = '';
    pid = server.pid;
    text = (text + decoder.write(chunk)).slice(-MOST_REMEMBERED);
  });
  return () =>
    text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-most);
}

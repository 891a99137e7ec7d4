import type { Json } from '../../json.ts';
import type { Key } from './key.ts';

/** What a request came with, in one scope: from the client, or from the server's store. */
export interface Source {
  /** Names that are there, whether or not what is under them can be read. */
  names(): Iterable<string>;
  /** The value, a copy each time; undefined where there is none, or none that can be read (which is reported). */
  read(name: string, key: Key): Json | undefined;
  /** Throws where nothing that is set could be kept. */
  checkWritable(): void;
}

/** What a handler did with a name: the value it set, or that it is gone. */
export type Change = { readonly json: Json } | null;

/** Changes of one scope, by name. */
export type Changes = ReadonlyMap<string, Change>;

/** Tells that something which came back was not taken. */
export type Report = (name: string, reason: string) => void;

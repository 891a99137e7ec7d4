import type { ClientValise } from 'mcp-valise/client';

/** What each example in this folder is given. */
export interface Setting {
  /** Where the MCP server is. */
  readonly url: string;
  /** The Valise of the host; undefined if the host is used without it. */
  readonly valise: ClientValise | undefined;
  /** Shows the sign-in page of a server that wants one, usually in a browser. */
  redirect(page: URL): unknown;
  /** The user's answer to a question of the server. */
  answer(): Promise<{ action: 'accept'; content: { name: string } }>;
}

/** A conversation with a model that has the tools of the server. */
export interface Conversation {
  /** What the model says in the end. */
  say(prompt: string): Promise<string>;
  close(): Promise<void>;
}

/** A host, and how it takes Valise. */
export type Open = (setting: Setting) => Promise<Conversation>;

import { ValiseError } from '../errors.ts';

/** A client as ioredis and iovalkey make them, for one server or for a Cluster. */
export interface IoredisClient {
  readonly status?: string;
  call(command: string, ...args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  duplicate(): IoredisClient;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: what events carry is the client's own affair
  on(event: string, listener: (...args: any[]) => void): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, listener: (...args: any[]) => void): unknown;
}

import { Events } from '../core/events.ts';
import type { Json } from '../core/json.ts';
import { toText, Work } from './driver.ts';
import { closedBusError } from './memory/bus.ts';
import type { Bus } from './types.ts';

/** The operations a messaging server must provide for a {@link Bus}. */
export interface BusTransport {
  publish(channel: string, text: string): Promise<void>;
  /** Resolves once messages on `channel` will arrive, and keeps listening for as long as the transport is open. */
  listen(channel: string): Promise<void>;
  unlisten(channel: string): Promise<void>;
  close(): Promise<void>;
}

/** Creates a bus on a transport. It listens once per topic, regardless of the number of listeners. */
export function busOver(
  channelOf: (topic: string) => string,
  carry: (hear: (channel: string, text: string) => void) => BusTransport,
): Bus {
  const hub = new Events<Record<string, string>>();
  const channels = new Map<string, { users: number; readonly listening: Promise<void> }>();
  const transport = carry((channel, text) => hub.emit(channel, text));
  const work = new Work(closedBusError);

  const leave = async (channel: string): Promise<void> => {
    const known = channels.get(channel);
    if (!known || --known.users > 0) return;
    channels.delete(channel);
    if (!work.closed) await transport.unlisten(channel);
  };

  const join = async (topic: string, listener: (message: Json) => void): Promise<() => Promise<void>> => {
    const channel = channelOf(topic);
    let known = channels.get(channel);
    if (!known) channels.set(channel, (known = { users: 0, listening: transport.listen(channel) }));
    known.users++;
    const off = hub.on(channel, (text) => {
      const message = parse(text);
      if (message !== undefined) listener(message);
    });
    let ended: Promise<void> | undefined;
    const end = () => {
      off();
      ended ??= leave(channel);
      return ended;
    };
    try {
      await known.listening;
    } catch (error) {
      await end();
      throw error;
    }
    return end;
  };

  return {
    publish: (topic, message) =>
      work.run(async () => transport.publish(channelOf(topic), toText(topic, message))),
    subscribe: (topic, listener) => work.run(() => join(topic, listener)),
    close: () => work.close(() => transport.close()),
  };
}

/** Returns undefined for invalid JSON: others may write to the same channel, and their messages must not cause a failure. */
function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

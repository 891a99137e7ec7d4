import { checkArgument, FUNCTION } from '../../options.ts';
import type { RoundCounts } from './counters.ts';
import { flowHandler, type Handler } from './flow.ts';
import type { Rounds } from './rounds.ts';
import { readFlowOptions } from './settings.ts';
import type { Flow, FlowOptions } from './types.ts';

/** The rounds of a server, as its author uses them. */
export interface RoundsApi {
  /**
   * Makes a handler of a tool, prompt or resource that may ask in the middle and goes on anywhere. The handler gets the
   * same arguments as without it, with the flow in the place of the SDK's own; on every round it runs again from the
   * top, and what it has asked and done `once` is remembered.
   *
   * @example
   * ```ts
   * server.registerTool('delete', config, valise.flow(async ({ path }, flow) => {
   *   const { sure } = await flow.ask('sure', { message: `Delete ${path}?`, schema: yesOrNo });
   *   if (sure) await flow.once('delete', () => disk.delete(path));
   *   return { content: [{ type: 'text', text: sure ? 'Deleted.' : 'Kept.' }] };
   * }));
   * ```
   */
  flow<Args extends readonly unknown[] = [], Value = unknown, Extra = unknown>(
    handler: (...args: [...Args, Flow<Extra>]) => Value | Promise<Value>,
    options?: FlowOptions,
  ): (...args: [...Args, Extra]) => Promise<Value>;
  /** What rounds have come to so far. */
  roundCounts(): RoundCounts;
}

export function roundsApi(rounds: Rounds): RoundsApi {
  return {
    flow(handler, options = {}) {
      checkArgument('valise.flow()', handler, FUNCTION);
      rounds.asks = true;
      const settings = readFlowOptions(options, rounds.mode, rounds.context.store);
      return flowHandler(rounds, settings, handler as Handler) as never;
    },
    roundCounts: () => rounds.counters.read(),
  };
}

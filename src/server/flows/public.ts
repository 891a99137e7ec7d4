import { checkArgument, FUNCTION } from '../../options.ts';
import type { FlowCounts } from './counters.ts';
import { flowHandler, type Handler } from './flow.ts';
import type { Rounds } from './rounds.ts';
import { readFlowOptions } from './settings.ts';
import type { Flow, FlowOptions } from './types.ts';

/** The part of a server's API that is about flows. */
export interface FlowsApi {
  /**
   * Wraps a handler of a tool, prompt or resource, so that it can ask questions and continue on any instance.
   *
   * The handler gets its usual arguments, with the flow in place of the SDK's own. On every round it runs again from the top.
   * Its answered questions and its effects in `once` are remembered.
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
  readonly flows: {
    /** Returns the counts of rounds so far. */
    counts(): FlowCounts;
  };
}

export function flowsApi(rounds: Rounds): FlowsApi {
  return {
    flow(handler, options = {}) {
      checkArgument('valise.flow()', handler, FUNCTION);
      rounds.asks = true;
      const settings = readFlowOptions(options, rounds.mode, rounds.context.store);
      return flowHandler(rounds, settings, handler as Handler) as never;
    },
    flows: { counts: () => rounds.counters.read() },
  };
}

import { isObject } from '../../json.ts';
import { HANDLE } from '../../wire/handle.ts';
import { NAMES } from '../../wire/index.ts';
import { toolNames, toolOf } from '../config.ts';
import type { Exchange } from '../exchange.ts';
import { isFlow } from '../flows/mark.ts';
import type { ServerLike } from '../server-like.ts';
import type { Handles } from './handles.ts';

const KEY = NAMES.modern.state.key;

/**
 * Marks a tool as keeping state between calls, in the `_meta` of its config.
 *
 * Such a tool then works for anonymous clients over HTTP that carry nothing: it gets the parameter `state_handle`, which the
 * model copies from one result into the next call. This needs a store.
 *
 * @example
 * ```ts
 * server.registerTool('add_to_cart', { description, inputSchema, _meta: { ...keepsState } }, addToCart);
 * ```
 */
export const keepsState: { readonly [KEY]: { readonly keeps: true } } = Object.freeze({
  [KEY]: Object.freeze({ keeps: true as const }),
});

/** Returns the tools of a server that say in their config that they keep state or need a session. */
export function declaredTools(server: ServerLike): readonly string[] {
  return toolNames(server).filter((name) => {
    const meta = toolOf(server, name)?.meta;
    return [meta?.[KEY], meta?.[NAMES.modern.session]].some(
      (declared) => isObject(declared) && (declared['keeps'] === true || declared['required'] === true),
    );
  });
}

/** Returns the warning for tools that no anonymous client without state can use, since there is no store. */
export function storeless(tools: readonly string[]): { readonly what: string; readonly next: string } {
  const named = tools
    .slice(0, 5)
    .map((name) => JSON.stringify(name))
    .join(', ');
  return {
    what: `There is no store, so ${named === '' ? 'no tool takes' : `${named} take${tools.length === 1 ? 's' : ''} no`} state_handle: anonymous clients over HTTP that carry no state get an error.`,
    next: 'Give createValise a store that all instances share.',
  };
}

/** Creates the function that says whether a tool keeps state between calls. */
export function stateKeeping(
  handles: Exclude<Handles, false>,
  options: {
    /** Whether a call of the tool needs a session. */
    needsSession(exchange: Exchange, tool: string): boolean;
    /** Whether flows of clients that cannot be asked continue in a later call. */
    readonly flowsContinue: boolean;
  },
): (exchange: Exchange, tool: string) => boolean {
  return (exchange, name) => {
    const tool = exchange.toolOf(name);
    // A parameter of the author's own has another meaning.
    if (tool?.takes(HANDLE)) return false;
    if (handles === 'all' || options.needsSession(exchange, name)) return true;
    const declared = tool?.meta?.[KEY];
    if (isObject(declared) && declared['keeps'] === true) return true;
    return options.flowsContinue && isFlow(tool?.handler);
  };
}

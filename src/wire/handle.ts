import { isObject, type JsonObject } from '../core/json.ts';
import type { Result, ResultResponse } from '../core/message.ts';

/** The parameter in which a model passes a state handle back (SEP-2567). */
export const HANDLE = 'state_handle';

/** The `_meta` key of a listed tool that says that the server has added {@link HANDLE} to it. */
const HANDLE_ADDED = 'dev.valise/state-handle';

const DESCRIPTION =
  'Opaque. Copy state_handle from the latest result of this server, unchanged. Omit it (or null) if there is none yet.';

/** What the description of such a tool says at its end. */
const LIFETIME =
  'Keeps state under its state_handle for 24 hours after the last use, and for 30 days at most.';

/** Adds the parameter to a tool as listed, last, and to the schema of its structured output. */
export function withHandleParameter(tool: JsonObject): JsonObject {
  const property = { type: 'string', description: DESCRIPTION };
  const widened = (schema: JsonObject): JsonObject => ({
    ...schema,
    properties: { ...(isObject(schema['properties']) && schema['properties']), [HANDLE]: property },
  });
  const { description, inputSchema, outputSchema, _meta } = tool;
  return {
    ...tool,
    description: typeof description === 'string' ? `${description}\n${LIFETIME}` : LIFETIME,
    inputSchema: widened(isObject(inputSchema) ? (inputSchema as JsonObject) : { type: 'object' }),
    ...(isObject(outputSchema) &&
      outputSchema['type'] === 'object' && { outputSchema: widened(outputSchema as JsonObject) }),
    _meta: { ...(isObject(_meta) && _meta), [HANDLE_ADDED]: true } as JsonObject,
  };
}

/** Hides the parameter in a list of tools. */
export function withoutHandles(response: ResultResponse): ResultResponse {
  const { tools } = response.result;
  if (!Array.isArray(tools)) return response;
  return {
    ...response,
    result: { ...response.result, tools: (tools as JsonObject[]).map(withoutParameter) },
  };
}

/** Returns the tool as it was before {@link withHandleParameter}, if the server says that it has added the parameter. */
function withoutParameter(tool: JsonObject): JsonObject {
  const { _meta, description, inputSchema, outputSchema, ...rest } = tool;
  if (!isObject(_meta) || _meta[HANDLE_ADDED] !== true) return tool;
  const { [HANDLE_ADDED]: _, ...meta } = _meta;
  const own = typeof description === 'string' ? description.replace(LIFETIME, '').trimEnd() : '';
  return {
    ...rest,
    ...(own !== '' && { description: own }),
    ...(inputSchema !== undefined && { inputSchema: narrowed(inputSchema) }),
    ...(outputSchema !== undefined && { outputSchema: narrowed(outputSchema) }),
    ...(Object.keys(meta).length > 0 && { _meta: meta as JsonObject }),
  };
}

function narrowed(schema: JsonObject[string]): JsonObject[string] {
  if (!isObject(schema) || !isObject(schema['properties'])) return schema;
  const { [HANDLE]: _, ...properties } = schema['properties'];
  return { ...schema, properties } as JsonObject;
}

/**
 * Takes the handle out of the arguments of a call. The handle is undefined if there is none.
 *
 * Models copy quotes, backticks or the name along with a handle, and some hosts send `null` for a parameter that is left out.
 */
export function takeHandle(args: unknown): { readonly own: unknown; readonly handle: string | undefined } {
  if (!isObject(args) || !Object.hasOwn(args, HANDLE)) return { own: args, handle: undefined };
  const { [HANDLE]: given, ...own } = args;
  if (given === null || given === undefined) return { own, handle: undefined };
  if (typeof given !== 'string') return { own, handle: 'not text' };
  const bare = given.slice(0, 256).replaceAll(/["'`\s]/g, '');
  const handle = bare.startsWith(`${HANDLE}:`) ? bare.slice(HANDLE.length + 1) : bare;
  return { own, handle: handle === '' ? undefined : handle };
}

/**
 * Adds the handle to a tool's result: as its own last block, and inside structured content.
 *
 * The block begins with a newline, since some hosts join blocks without a separator.
 */
export function withHandle(result: Result, handle: string, isEchoed: boolean): Result {
  const { content, structuredContent } = result;
  if (!Array.isArray(content)) return result;
  const advice = isEchoed ? '' : `\nPass it unchanged as "${HANDLE}" in every later call to this server.`;
  return {
    ...result,
    content: [...content, { type: 'text', text: `\n${HANDLE}: ${handle}${advice}` }],
    ...(isObject(structuredContent) && {
      structuredContent: { ...structuredContent, [HANDLE]: handle } as JsonObject,
    }),
  };
}

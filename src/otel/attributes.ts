import type { Attributes } from '@opentelemetry/api';
import { redactUrls } from '../core/redact-urls.ts';
import type { Meta, Request, Response } from '../wire/index.ts';
import { DRAFTS, NAMES } from '../wire/names.ts';

/** The longest name of a tool or prompt in an attribute. */
const MAX_NAME = 128;

/** Returns the name of a span: the method, and the tool or prompt that it is about. */
export function spanName({ method, params }: Request): string {
  const name = method === 'tools/call' || method === 'prompts/get' ? params?.['name'] : undefined;
  return typeof name === 'string' ? `${method} ${name.slice(0, MAX_NAME)}` : method;
}

/** Returns the attributes of a request by the semantic conventions for MCP, for a span. */
export function requestAttributes(request: Request): Attributes {
  const { method, params, id } = request;
  const uri = params?.['uri'];
  return {
    'mcp.method.name': method,
    'jsonrpc.request.id': String(id).slice(0, MAX_NAME),
    ...subjectAttributes(request),
    ...(method.startsWith('resources/') &&
      typeof uri === 'string' && { 'mcp.resource.uri': redactUrls(uri).slice(0, 1024) }),
  };
}

/** Returns the arguments of a tool as an attribute, if the user has opted in. */
export function argumentAttributes({ method, params }: Request, captureContent: boolean): Attributes {
  if (!captureContent || method !== 'tools/call') return {};
  return { 'gen_ai.tool.call.arguments': JSON.stringify(params?.['arguments'] ?? {}) };
}

/** Returns the attributes that name the tool or prompt of a request. Metrics have them too. */
export function subjectAttributes({ method, params }: Pick<Request, 'method' | 'params'>): Attributes {
  const name = params?.['name'];
  if (typeof name !== 'string') return {};
  const short = name.slice(0, MAX_NAME);
  if (method === 'tools/call') return { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': short };
  return method === 'prompts/get' ? { 'gen_ai.prompt.name': short } : {};
}

/** Returns the attributes of a response that is an error. Returns undefined for any other response. */
export function failureOf(response: Response): Attributes | undefined {
  if ('error' in response) {
    const code = String(response.error.code);
    return { 'error.type': code, 'rpc.response.status_code': code };
  }
  return response.result['isError'] === true ? { 'error.type': 'tool_error' } : undefined;
}

const { legacy, modern } = NAMES;
const FAMILIES: readonly (readonly [family: string, keys: readonly string[]])[] = [
  ['jar', [modern.state.key, legacy.state.session, legacy.state.server]],
  ['sessions', [modern.session, legacy.session, DRAFTS.session]],
  ['idempotency', [modern.idempotency.key]],
];

/** Returns the families that a request and its response use. `isRound`: whether they belong to a flow. */
export function familiesUsed(request: Request, response: Response | undefined, isRound: boolean): string[] {
  const metas = [request.params?._meta, response && 'result' in response ? response.result._meta : undefined];
  const used = FAMILIES.filter(([, keys]) => metas.some((meta) => hasAny(meta, keys)));
  return [...used.map(([family]) => family), ...(isRound ? ['flows'] : [])];
}

/** Whether a message names a data-layer session, in any spelling. */
export function hasSession(meta: Meta | undefined): boolean {
  return hasAny(meta, [modern.session, legacy.session, DRAFTS.session]);
}

function hasAny(meta: Meta | undefined, keys: readonly string[]): boolean {
  return meta !== undefined && keys.some((key) => meta[key] !== undefined);
}

import type { Attributes } from '@opentelemetry/api';
import { redactUrls } from '../redact-urls.ts';
import type { Request, Response } from '../wire/index.ts';

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

/** Returns the attributes that name the subject of a request. They have few values, so metrics have them too. */
export function subjectAttributes({ method, params }: Request): Attributes {
  const name = params?.['name'];
  if (typeof name !== 'string') return {};
  const short = name.slice(0, MAX_NAME);
  if (method === 'tools/call') return { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': short };
  return method === 'prompts/get' ? { 'gen_ai.prompt.name': short } : {};
}

/** Returns the attributes of a response that is an error, or undefined if it is none. */
export function failureOf(response: Response): Attributes | undefined {
  if ('error' in response) {
    const code = String(response.error.code);
    return { 'error.type': code, 'rpc.response.status_code': code };
  }
  return response.result['isError'] === true ? { 'error.type': 'tool_error' } : undefined;
}

/** The number of different values of one label that metrics distinguish. A peer can send any number of names. */
const MAX_VALUES = 200;

/** Replaces values of a label beyond the first {@link MAX_VALUES} by `_other`, so that no peer can grow the metrics. */
export class Labels {
  readonly #seen = new Set<string>();

  of(value: string): string {
    if (this.#seen.has(value)) return value;
    if (this.#seen.size >= MAX_VALUES) return '_other';
    this.#seen.add(value);
    return value;
  }
}

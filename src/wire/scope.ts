import { isObject } from '../json.ts';

/** Methods whose target is one field of their params. */
const TARGETS: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'resources/subscribe': 'uri',
  'resources/unsubscribe': 'uri',
};

/**
 * Returns the path of a request that method scopes are matched against: its method, followed by its target if it has
 * one. The cursor of a list is not part of the path, so every page has the scope of its list.
 *
 * @example
 * ```ts
 * methodPath('tools/call', { name: 'view_cart' }); // 'tools/call/view_cart'
 * ```
 */
export function methodPath(method: string, params?: unknown): string {
  if (!isObject(params)) return method;
  const field = Object.hasOwn(TARGETS, method) ? TARGETS[method] : undefined;
  const target = field === undefined ? completionTarget(method, params.ref) : params[field];
  return typeof target === 'string' ? `${method}/${target}` : method;
}

/** A prompt and a resource may share a name, so the kind of the reference is part of the path. */
function completionTarget(method: string, ref: unknown): string | undefined {
  if (method !== 'completion/complete' || !isObject(ref)) return undefined;
  if (ref.type === 'ref/prompt' && typeof ref.name === 'string') return `ref/prompt/${ref.name}`;
  if (ref.type === 'ref/resource' && typeof ref.uri === 'string') return `ref/resource/${ref.uri}`;
  return undefined;
}

/** Whether `scope` is the path itself or a prefix of it that ends at a slash. */
export function scopeCovers(scope: string, path: string): boolean {
  if (!path.startsWith(scope)) return scope.endsWith('/') && path === scope.slice(0, -1);
  return path.length === scope.length || scope.endsWith('/') || path[scope.length] === '/';
}

/**
 * Whether state with this `method-scope` is sent with the request. To match several scopes against one request, compute
 * its {@link methodPath} once and call {@link scopeCovers}.
 *
 * @example
 * ```ts
 * methodScopeMatches('tools', 'tools/list'); // true
 * methodScopeMatches('tools', 'toolsmith/x'); // false
 * ```
 */
export function methodScopeMatches(scope: string, method: string, params?: unknown): boolean {
  return scopeCovers(scope, methodPath(method, params));
}

import { isObject } from './json.ts';

/** The id of a request. */
export type Id = string | number;

/** The `_meta` object of params or a result. */
export type Meta = { readonly [key: string]: unknown };

/** `params` of a request or notification. */
export type Params = { readonly [key: string]: unknown; readonly _meta?: Meta | undefined };

/** The `result` of a successful response. */
export type Result = { readonly [key: string]: unknown; readonly _meta?: Meta | undefined };

/** The `error` of a failed response. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** A JSON-RPC request, independent of either SDK. */
export interface Request {
  readonly jsonrpc: '2.0';
  readonly id: Id;
  readonly method: string;
  readonly params?: Params | undefined;
}

/** A JSON-RPC notification. */
export interface Notification {
  readonly jsonrpc: '2.0';
  readonly method: string;
  readonly params?: Params | undefined;
}

/** A successful JSON-RPC response. */
export interface ResultResponse {
  readonly jsonrpc: '2.0';
  readonly id: Id;
  readonly result: Result;
}

/** A failed JSON-RPC response. The id is missing if the request could not be read. */
export interface ErrorResponse {
  readonly jsonrpc: '2.0';
  readonly id?: Id | null | undefined;
  readonly error: RpcError;
}

/** A JSON-RPC response. */
export type Response = ResultResponse | ErrorResponse;

/** Any JSON-RPC message. */
export type Message = Request | Notification | Response;

/** JSON-RPC error codes that Valise responds with. */
export const INVALID_PARAMS = -32602;
export const INTERNAL_ERROR = -32603;
export const METHOD_NOT_FOUND = -32601;

/** The error code of a 2026-07-28 peer for an unsupported protocol version. */
export const UNSUPPORTED_VERSION = -32022;

/** Whether the message has a method and an id. */
export function isRequest(message: unknown): message is Request {
  return isObject(message) && typeof message.method === 'string' && isId(message.id);
}

/** Whether the message has a method and no id. */
export function isNotification(message: unknown): message is Notification {
  return isObject(message) && typeof message.method === 'string' && message.id === undefined;
}

/** Whether the message has a result or an error and no method. */
export function isResponse(message: unknown): message is Response {
  return isResultResponse(message) || isErrorResponse(message);
}

/** Whether the message is a successful response. */
export function isResultResponse(message: unknown): message is ResultResponse {
  return isObject(message) && message.method === undefined && isObject(message.result) && isId(message.id);
}

/** Whether the message is a failed response. */
export function isErrorResponse(message: unknown): message is ErrorResponse {
  return isObject(message) && message.method === undefined && isObject(message.error);
}

/** Whether the value is a valid request id. */
export function isId(id: unknown): id is Id {
  return typeof id === 'string' || typeof id === 'number';
}

/** Returns the result without these `_meta` keys, and without `_meta` if it would be empty. Does not modify the result. */
export function withoutMeta(result: Result, keys: readonly string[]): Result {
  const meta = result._meta;
  if (!isObject(meta) || !keys.some((key) => Object.hasOwn(meta, key))) return result;
  const left = Object.fromEntries(Object.entries(meta).filter(([key]) => !keys.includes(key)));
  if (Object.keys(left).length > 0) return { ...result, _meta: left };
  const { _meta: _, ...rest } = result;
  return rest;
}

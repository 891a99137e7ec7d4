import type { Message, Notification, Params, Request, Response, Result, RpcError } from 'mcp-valise/internal';
import type { HostQuestions } from './questions.ts';
import type { HostSettings } from './settings.ts';

/** Receives the response to a request, or a substitute with the reason why the request could not be delivered. */
export type Done = (response: Response, failure?: unknown) => void;

/** The server as the bridge reaches it. */
export interface Server {
  request(request: Request, done: Done): void;
  /** Sends a notification or a response. Resolves once it is delivered or lost. */
  notify(message: Notification | Response): Promise<void>;
}

/** Handles the messages between a host and a server of certain eras. */
export interface Translation {
  /** Handles a request of the host. */
  request(request: Request): void;
  /** Handles a notification of the host. */
  notification(message: Notification): void;
  /** Handles a request or a notification of the server. */
  fromServer(message: Request | Notification): void;
  /** Stops, because the server was replaced. Responses to requests that were sent before may still arrive. */
  leave(): void;
}

/** A call in which the server asked something, and its questions. */
export interface AskingCall {
  readonly call: { readonly method: string; readonly params?: Params | undefined };
  readonly inputRequests: Readonly<Record<string, unknown>>;
}

/** Receives a call that the host cancelled while it was being asked, and the reason. */
export type TakenBack = (asking: AskingCall, reason: unknown) => void;

/** A response without its id. */
export type Answer = { readonly result: Result } | { readonly error: RpcError };

/** How a request of the bridge's own ended. */
export interface Outcome {
  readonly response: Response;
  readonly failure: unknown;
}

/** What a {@link Translation} can do. */
export interface Sides {
  readonly settings: HostSettings;
  readonly questions: HostQuestions;
  readonly takenBack: TakenBack;
  /** Calls of a replaced server whose questions a newer host may still answer, by their `requestState`. */
  readonly lost: Map<unknown, { continue(request: Request): void }>;
  /** Sends a message to the host. */
  toHost(message: Message): void;
  /** Answers a request of the host, unless the host has cancelled it. */
  answer(request: Request, body: Answer): void;
  /** Sends a notification or a response to the server. */
  toServer(message: Notification | Response): void;
  /** Sends the server a request for the host's request `of`. If the server has changed its era, `done` is not called. */
  request(by: Translation, of: Request, sent: Request, done: (response: Response) => void): void;
  /** Sends a request of the bridge's own, which the host never sees. */
  ask(method: string, params: Params): Promise<Outcome>;
  /** Returns an id that no host uses. */
  newId(kind: string): string;
  /** Returns the host's calls under way during which a server may ask. */
  calls(): Request[];
}

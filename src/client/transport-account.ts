import type { MessageLimit } from '../link/limit.ts';
import type { TransportLike } from '../link/transport.ts';
import type { Store } from '../store/types.ts';
import { Account, accountOfHeaders, TokenOwner } from './account.ts';
import { addHttpEdge } from './connection/http.ts';
import { keyOf } from './connection/key.ts';
import { type Target, targetKey } from './target.ts';

/** The credentials of a Streamable HTTP transport, under the names that both SDK majors use. */
interface Signing {
  readonly _requestInit?: RequestInit | undefined;
  readonly _authProvider?: {
    tokens?():
      | Promise<{ readonly access_token?: string } | undefined>
      | { readonly access_token?: string }
      | undefined;
    token?(): Promise<string | undefined> | string | undefined;
  };
}

/** Adds our byte edge to a transport that the application has created, and determines the account of its requests. */
export async function accountOf(
  transport: TransportLike,
  { target, principal }: { readonly target: Target; readonly principal: string },
  store: Store,
  limit: MessageLimit,
): Promise<Account> {
  const { _requestInit: init, _authProvider: provider } = transport as Signing;
  const account = new Account(accountOfHeaders(init?.headers, principal));
  const owner = new TokenOwner(store, keyOf('account', { target: targetKey(target), principal }), principal);
  // A manually set bearer token is an account by itself, and not a sign-in.
  const isGiven = new Headers(init?.headers).has('authorization');
  addHttpEdge(transport, limit, (token) => (isGiven ? undefined : owner.uses(token, account)));
  const token = (await provider?.tokens?.())?.access_token ?? (await provider?.token?.());
  if (token !== undefined && !isGiven) account.signIn(await owner.of(token));
  return account;
}

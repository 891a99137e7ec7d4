import { useState } from 'preact/hooks';
import { type ApiError, post, useData } from '../api.ts';
import { count } from '../format.ts';
import type { Meta, SignIn } from '../types.ts';
import { Act, Badge, Confirm, Empty, Problem, Screen, Text, Time } from '../ui.tsx';

const KEPT_IN = {
  store: 'in the store',
  secrets: 'in a store of their own',
  'key-file': 'sealed in the store, with a key in a file that only you can read',
  keychain: "sealed in the store, with a key in the system's keychain",
} as const;

const REVOKED: Readonly<Record<string, string>> = {
  none: 'Forgotten; no tokens were found.',
  revoked: 'Signed out and forgotten.',
  unreachable:
    'Forgotten here. The authorization server could not be reached, so the tokens are good until they expire.',
  refused:
    'Forgotten here. The authorization server did not revoke the tokens, so they are good until they expire.',
  'needs-secret': 'Forgotten here. Revoking takes the secret of the client, which is not kept.',
};

/** Where the user is signed in. Never shows a token. */
export function SignIns({ meta }: { readonly meta: Meta }) {
  const { data, error, reload } = useData<{ signIns: readonly SignIn[] }>('sign-ins', 'sign-ins');
  const [leaving, setLeaving] = useState<SignIn>();
  const [told, setTold] = useState('');
  const [problem, setProblem] = useState<ApiError>();
  const [busy, setBusy] = useState('');
  const act = async (id: string, work: () => Promise<string>): Promise<void> => {
    setBusy(id);
    setProblem(undefined);
    setTold('');
    try {
      setTold(await work());
    } catch (thrown) {
      setProblem(thrown as ApiError);
    }
    setBusy('');
    reload();
  };
  const refresh = ({ id }: SignIn) =>
    act(id, async () => {
      const { refreshed } = await post<{ refreshed: boolean }>('sign-ins/refresh', { id });
      return refreshed ? 'New tokens have arrived.' : 'There is nothing here that can be refreshed.';
    });
  const leave = ({ id }: SignIn) =>
    act(id, async () => {
      setLeaving(undefined);
      const { tokens } = await post<{ tokens: string }>('sign-ins/sign-out', { id });
      return REVOKED[tokens] ?? 'Forgotten.';
    });
  const signIns = data?.signIns;
  return (
    <Screen
      title="Sign-ins"
      about={signIns ? `${count(signIns.length, 'sign-in')}. Tokens are never shown.` : 'Loading…'}
    >
      <Problem error={error ?? problem} />
      <p class="told" role="status">
        {told}
      </p>
      {leaving && (
        <Confirm
          words={`Sign out of ${leaving.server}? The tokens are revoked, and the sessions and their state here are deleted.`}
          yes="Sign out"
          onYes={() => void leave(leaving)}
          onNo={() => setLeaving(undefined)}
        />
      )}
      {signIns?.length === 0 && (
        <Empty
          title="You are not signed in anywhere"
          command="valise call https://vault.example.com/mcp whoami"
        >
          When a server asks a client of this store to sign in, the sign-in is kept here, sealed, and shared
          by all its processes.
        </Empty>
      )}
      {signIns?.map((signIn) => (
        <section class="card" key={signIn.id} aria-label={`Sign-in at ${signIn.server}`}>
          <div class="details-head">
            <h2>
              <Text>{signIn.server}</Text>
            </h2>
            <Status signIn={signIn} />
          </div>
          <dl class="facts">
            <div>
              <dt>Issuer</dt>
              <dd>
                <Text>{signIn.issuer ?? 'not said'}</Text>
              </dd>
            </div>
            <div>
              <dt>Scopes</dt>
              <dd>{signIn.scope ? <Text>{signIn.scope}</Text> : <span class="quiet">not said</span>}</dd>
            </div>
            <div>
              <dt>Access token expires</dt>
              <dd>
                <Time at={signIn.tokenExpiresAt} none="not said" />
              </dd>
            </div>
            <div>
              <dt>Refresh</dt>
              <dd>{signIn.renewable ? 'without you' : 'not possible: you sign in again'}</dd>
            </div>
            <div>
              <dt>Kept</dt>
              <dd>{signIn.keptIn ? KEPT_IN[signIn.keptIn] : 'nothing'}</dd>
            </div>
            <div>
              <dt>Refreshed right now by</dt>
              <dd>{signIn.refreshedBy === undefined ? 'no process' : `process ${signIn.refreshedBy}`}</dd>
            </div>
          </dl>
          <div class="actions">
            <Act
              write={meta.write}
              disabled={!signIn.renewable || busy === signIn.id}
              onClick={() => void refresh(signIn)}
            >
              {busy === signIn.id ? 'Working…' : 'Refresh now'}
            </Act>
            <Act
              write={meta.write}
              tone="danger"
              disabled={busy === signIn.id}
              onClick={() => setLeaving(signIn)}
            >
              Sign out…
            </Act>
          </div>
        </section>
      ))}
    </Screen>
  );
}

function Status({ signIn }: { readonly signIn: SignIn }) {
  if (!signIn.signedIn) return <Badge>not signed in</Badge>;
  const isOver =
    signIn.tokenExpiresAt !== undefined && new Date(signIn.tokenExpiresAt).getTime() < Date.now();
  if (!isOver) return <Badge tone="good">signed in</Badge>;
  return signIn.renewable ? <Badge tone="warn">to be refreshed</Badge> : <Badge tone="bad">expired</Badge>;
}

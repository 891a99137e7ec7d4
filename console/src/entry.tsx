import { useEffect, useState } from 'preact/hooks';
import { type ApiError, get, post } from './api.ts';
import { bytes } from './format.ts';
import type { Entry } from './types.ts';
import { Act, JsonTree, Problem, Text, Time } from './ui.tsx';

interface Shown {
  readonly value?: unknown;
  readonly text?: string;
  readonly sealed?: { readonly kid: string; readonly bytes: number };
}

interface Opened {
  readonly purpose: string;
  readonly audience: string;
  readonly issuedAt: string;
  readonly expiresAt: string;
  readonly locked?: string;
  readonly value?: unknown;
}

/** One entry with its value. A sealed value is described, and opened only with a key that the user gives. */
export function EntryDetails({
  entry,
  write,
  onDelete,
  onClose,
}: {
  readonly entry: Entry;
  readonly write: boolean;
  readonly onDelete: (entry: Entry) => void;
  readonly onClose: () => void;
}) {
  const [shown, setShown] = useState<Shown>();
  const [opened, setOpened] = useState<Opened>();
  const [keys, setKeys] = useState('');
  const [error, setError] = useState<ApiError>();
  const { server, scope, key, session, account } = entry;
  const name = { server, scope, key, ...(session && { session }), ...(account && { account }) };
  useEffect(() => {
    get<Shown>(`state/value?${new URLSearchParams(name)}`).then(setShown, setError);
  }, [entry.setAt]);
  const open = async (event: Event): Promise<void> => {
    event.preventDefault();
    setError(undefined);
    try {
      const answer = await post<{ opened: Opened }>('state/open', { ...name, keys });
      setOpened(answer.opened);
    } catch (thrown) {
      setError(thrown as ApiError);
    }
    // The key is used once and not kept.
    setKeys('');
  };
  return (
    <section class="card details" aria-label={`Entry ${key}`}>
      <div class="details-head">
        <h2>
          <Text>{key === '' ? '(empty)' : key}</Text>
        </h2>
        <div class="actions">
          <Act small write={write} tone="danger" onClick={() => onDelete(entry)}>
            Delete…
          </Act>
          <button type="button" class="button small" onClick={onClose}>
            Close
          </button>
        </div>
      </div>
      <dl class="facts">
        <div>
          <dt>Server</dt>
          <dd>
            <Text>{server}</Text>
          </dd>
        </div>
        <div>
          <dt>Scope</dt>
          <dd>{scope}</dd>
        </div>
        <div>
          <dt>Set</dt>
          <dd>
            <Time at={entry.setAt} />
            {entry.setBy && (
              <>
                {' by '}
                <Text>{entry.setBy}</Text>
              </>
            )}
          </dd>
        </div>
        <div>
          <dt>Last sent</dt>
          <dd>
            <Time at={entry.usedAt} />
          </dd>
        </div>
        <div>
          <dt>Expires</dt>
          <dd>
            <Time at={entry.expiresAt} />
          </dd>
        </div>
        <div>
          <dt>Size</dt>
          <dd>{bytes(entry.size)}</dd>
        </div>
        {entry.secure && (
          <div>
            <dt>Sent over</dt>
            <dd>https only</dd>
          </div>
        )}
      </dl>
      <Problem error={error} />
      {shown?.sealed && !opened && (
        <div class="sealed">
          <p>
            <strong>Sealed</strong> with the key <code>{shown.sealed.kid}</code>, {bytes(shown.sealed.bytes)}.
            Only the server can read it; this client carries it unopened.
          </p>
          <form onSubmit={open} class="inline-form">
            <label>
              <span>Keys of the server, to open it here</span>
              <input
                type="password"
                autocomplete="off"
                value={keys}
                placeholder="VALISE_KEYS"
                onInput={({ currentTarget }) => setKeys(currentTarget.value)}
              />
            </label>
            <button type="submit" class="button" disabled={keys === ''}>
              Open
            </button>
          </form>
        </div>
      )}
      {opened && (
        <div>
          <p class="quiet">
            Opened with your key: purpose {opened.purpose}, for {opened.audience || 'any server'}, sealed{' '}
            <Time at={opened.issuedAt} />.
          </p>
          {opened.locked ? (
            <p>
              The value stays closed ({opened.locked}): it is bound to something that only the server knows.
            </p>
          ) : (
            <JsonTree value={opened.value} />
          )}
        </div>
      )}
      {shown && !shown.sealed && (shown.text ? <pre>{shown.text}</pre> : <JsonTree value={shown.value} />)}
    </section>
  );
}

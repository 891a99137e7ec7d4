import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from './api.ts';
import { relative, visible } from './format.ts';

/** A text from a server: never markup, and nothing invisible in it. */
export function Text({ children }: { readonly children: string }) {
  return <>{visible(children)}</>;
}

/** A point in time, relative, with the exact time on hover and for machines. */
export function Time({
  at,
  none = '–',
}: {
  readonly at: number | string | undefined;
  readonly none?: string;
}) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 10_000);
    return () => clearInterval(timer);
  }, []);
  const time = at === undefined ? Number.NaN : new Date(at).getTime();
  if (Number.isNaN(time)) return <span class="quiet">{none}</span>;
  const exact = new Date(time).toISOString();
  return (
    <time dateTime={exact} title={exact.replace('T', ' ').replace(/\.\d+Z$/, ' UTC')}>
      {relative(time)}
    </time>
  );
}

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'plain';

/** A short word with a color. The word says it all. */
export function Badge({
  tone = 'plain',
  children,
}: {
  readonly tone?: Tone;
  readonly children: ComponentChildren;
}) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

/** What would be here, and how to get it. */
export function Empty({
  title,
  children,
  command,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
  readonly command?: string;
}) {
  return (
    <div class="empty">
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <rect x="3" y="10" width="26" height="17" rx="4" />
        <path d="M11 10V7.500A2.500 2.500 0 0 1 13.500 5h5A2.500 2.500 0 0 1 21 7.500V10M3 18h10m6 0h10M13 15.500h6v5h-6z" />
      </svg>
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {command && (
        <p>
          <code class="command">{command}</code>
        </p>
      )}
    </div>
  );
}

/** An error, with its next step. */
export function Problem({ error }: { readonly error: Pick<ApiError, 'message'> | undefined }) {
  if (!error) return null;
  return (
    <p class="problem" role="alert">
      <strong>This did not work.</strong> <Text>{error.message}</Text>
    </p>
  );
}

/** The frame of a screen. */
export function Screen({
  title,
  about,
  actions,
  children,
  fills,
}: {
  readonly title: string;
  readonly about: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
  /** Whether the screen is as high as the window, with lists that scroll. */
  readonly fills?: boolean;
}) {
  useEffect(() => {
    document.title = `${title} · Valise`;
  }, [title]);
  return (
    <div class={fills ? 'screen fills' : 'screen'}>
      <header class="screen-head">
        <div>
          <h1>{title}</h1>
          <p class="quiet">{about}</p>
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** A button for something that changes things. It says why it is off if the console only reads. */
export function Act({
  write,
  onClick,
  children,
  tone,
  small,
  label,
  disabled = false,
  type = 'button',
}: {
  readonly write: boolean;
  readonly onClick?: () => void;
  readonly children: ComponentChildren;
  readonly tone?: 'primary' | 'danger';
  readonly small?: boolean;
  readonly label?: string;
  readonly disabled?: boolean;
  readonly type?: 'button' | 'submit';
}) {
  return (
    <button
      type={type}
      class={['button', tone ?? '', small ? 'small' : ''].join(' ')}
      disabled={!write || disabled}
      title={write ? undefined : 'This console only reads. Start it with --write.'}
      aria-label={label}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

/** Asks before something that cannot be undone. */
export function Confirm({
  words,
  yes,
  onYes,
  onNo,
}: {
  readonly words: string;
  readonly yes: string;
  readonly onYes: () => void;
  readonly onNo: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" onClose={onNo} aria-label={words}>
      <p>
        <Text>{words}</Text>
      </p>
      <div class="actions">
        <button type="button" class="button" onClick={onNo}>
          Cancel
        </button>
        <button type="button" class="button danger" onClick={onYes}>
          {yes}
        </button>
      </div>
    </dialog>
  );
}

/** A bar that shows how full something is. The text beside it says the same. */
export function Meter({
  value,
  most,
  label,
}: {
  readonly value: number;
  readonly most: number;
  readonly label: string;
}) {
  const part = Math.min(1, most === 0 ? 0 : value / most);
  const tone = part >= 1 ? 'bad' : part >= 0.8 ? 'warn' : 'good';
  return (
    <span class={`meter ${tone}`} role="img" aria-label={label} title={label}>
      <span style={{ width: `${Math.max(part * 100, value > 0 ? 4 : 0)}%` }} />
    </span>
  );
}

/** A JSON value that can be folded. */
export function JsonTree({
  value,
  name,
  depth = 0,
}: {
  readonly value: unknown;
  readonly name?: string;
  readonly depth?: number;
}) {
  const label = name === undefined ? null : <span class="json-name">{visible(name)}: </span>;
  if (typeof value !== 'object' || value === null) {
    const kind = value === null ? 'null' : typeof value;
    return (
      <div class="json-line">
        {label}
        <span class={`json-${kind}`}>{visible(JSON.stringify(value) ?? String(value))}</span>
      </div>
    );
  }
  const entries = Array.isArray(value)
    ? value.map((each, at) => [String(at), each] as const)
    : Object.entries(value);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  if (entries.length === 0)
    return (
      <div class="json-line">
        {label}
        {open}
        {close}
      </div>
    );
  return (
    <details open={depth < 2} class="json">
      <summary>
        {label}
        <span class="quiet">
          {open} {entries.length} {close}
        </span>
      </summary>
      {entries.slice(0, 500).map(([key, each]) => (
        <JsonTree key={key} name={key} value={each} depth={depth + 1} />
      ))}
      {entries.length > 500 && <div class="quiet">and {entries.length - 500} more</div>}
    </details>
  );
}

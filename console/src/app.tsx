import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useData, useLive } from './api.ts';
import { Calls } from './screens/calls.tsx';
import { Health } from './screens/health.tsx';
import { OperatorFlows, OperatorRejections, OperatorSessions, OperatorStore } from './screens/operator.tsx';
import { Questions } from './screens/questions.tsx';
import { Servers } from './screens/servers.tsx';
import { SignIns } from './screens/sign-ins.tsx';
import { StateScreen } from './screens/state.tsx';
import { Timeline } from './screens/timeline.tsx';
import { Tour } from './screens/tour.tsx';
import type { Meta, Round } from './types.ts';
import { Badge, Problem } from './ui.tsx';

interface Page {
  readonly path: string;
  readonly name: string;
  readonly icon: string;
  readonly show: (meta: Meta, query: URLSearchParams) => ComponentChildren;
}

/** Icons as paths, on a grid of 24. */
const ICONS = {
  servers: 'M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01',
  state:
    'M4 6c0-1.700 3.600-3 8-3s8 1.300 8 3-3.600 3-8 3-8-1.300-8-3zM4 6v12c0 1.700 3.600 3 8 3s8-1.300 8-3V6M4 12c0 1.700 3.600 3 8 3s8-1.300 8-3',
  questions: 'M4 5h16v11H10l-5 4v-4H4zM10 9a2 2 0 1 1 2.500 2v1M12.500 14h.01',
  signIns: 'M8 11V8a4 4 0 0 1 8 0v3M6 11h12v9H6zM12 15v2',
  calls: 'M5 4l14 8-14 8z',
  timeline: 'M5 3v18M12 3v18M19 3v18M5 8h6M19 14h-6',
  health: 'M3 12h4l2-6 4 12 3-8 1.500 2H21',
} as const;

const CLIENT_PAGES: readonly Page[] = [
  { path: 'servers', name: 'Servers', icon: ICONS.servers, show: (meta) => <Servers meta={meta} /> },
  {
    path: 'state',
    name: 'State',
    icon: ICONS.state,
    show: (meta, query) => <StateScreen key={query.get('server') ?? ''} meta={meta} query={query} />,
  },
  { path: 'questions', name: 'Questions', icon: ICONS.questions, show: (meta) => <Questions meta={meta} /> },
  { path: 'sign-ins', name: 'Sign-ins', icon: ICONS.signIns, show: (meta) => <SignIns meta={meta} /> },
  { path: 'calls', name: 'Calls', icon: ICONS.calls, show: (meta) => <Calls meta={meta} /> },
  { path: 'timeline', name: 'Timeline', icon: ICONS.timeline, show: (meta) => <Timeline meta={meta} /> },
  { path: 'health', name: 'Health', icon: ICONS.health, show: (meta) => <Health meta={meta} /> },
];

const SERVER_PAGES: readonly Page[] = [
  {
    path: 'sessions',
    name: 'Sessions',
    icon: ICONS.servers,
    show: (meta) => <OperatorSessions meta={meta} />,
  },
  { path: 'flows', name: 'Flows', icon: ICONS.questions, show: () => <OperatorFlows /> },
  { path: 'rejections', name: 'Rejections', icon: ICONS.health, show: () => <OperatorRejections /> },
  { path: 'store', name: 'Store and keys', icon: ICONS.state, show: () => <OperatorStore /> },
];

const TOUR_PAGES: readonly Page[] = [
  { path: 'tour', name: 'Tour', icon: ICONS.calls, show: () => <Tour /> },
  { path: 'timeline', name: 'Timeline', icon: ICONS.timeline, show: (meta) => <Timeline meta={meta} /> },
];

function pagesFor({ mode }: Meta): readonly Page[] {
  return mode === 'server' ? SERVER_PAGES : mode === 'tour' ? TOUR_PAGES : CLIENT_PAGES;
}

function useHash(): readonly [path: string, query: URLSearchParams] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = (): void => setHash(location.hash);
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return [path, new URLSearchParams(query)];
}

/** The whole page. */
export function App() {
  const { data: meta, error } = useData<Meta>('meta', 'meta');
  if (!meta)
    return (
      <main class="alone">
        {error ? <Problem error={error} /> : <p class="quiet">Opening the console…</p>}
      </main>
    );
  return <Shell meta={meta} />;
}

function Shell({ meta }: { readonly meta: Meta }) {
  const [path, query] = useHash();
  const isLive = useLive();
  const pages = pagesFor(meta);
  const page = pages.find((each) => each.path === path) ?? pages[0];
  return (
    <div class="shell">
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById('content')?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="side">
        <div class="brand">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <rect x="3" y="10" width="26" height="17" rx="4" />
            <path d="M11 10V7.500A2.500 2.500 0 0 1 13.500 5h5A2.500 2.500 0 0 1 21 7.500V10" />
          </svg>
          <span>Valise</span>
        </div>
        <nav aria-label="Screens">
          <ul>
            {pages.map((each) => (
              <li key={each.path}>
                <a href={`#/${each.path}`} aria-current={each === page ? 'page' : undefined}>
                  <svg viewBox="0 0 24 24" aria-hidden="true">
                    <path d={each.icon} />
                  </svg>
                  {each.name}
                  {each.path === 'questions' && <OpenCount />}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="side-foot">
          <p class="store" title={meta.store}>
            {meta.store}
          </p>
          <p>
            {meta.write ? <Badge tone="warn">may write</Badge> : <Badge tone="good">read-only</Badge>}{' '}
            {!isLive && <Badge tone="bad">not live</Badge>}
          </p>
          <Theme />
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        {page?.show(meta, query)}
      </main>
    </div>
  );
}

function OpenCount() {
  const { data } = useData<{ questions: readonly Round[] }>('questions', 'questions');
  const open = data?.questions.length ?? 0;
  return open === 0 ? null : (
    <span class="count">
      {open}
      <span class="hidden"> open</span>
    </span>
  );
}

const THEMES = ['system', 'light', 'dark'] as const;

function Theme() {
  const [theme, setTheme] = useState(() => {
    const kept = localStorage.getItem('valise-theme');
    return THEMES.find((each) => each === kept) ?? 'system';
  });
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    localStorage.setItem('valise-theme', theme);
  }, [theme]);
  return (
    <label class="theme">
      <span class="hidden">Colors</span>
      <select value={theme} onChange={({ currentTarget }) => setTheme(currentTarget.value as typeof theme)}>
        <option value="system">System colors</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

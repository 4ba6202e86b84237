// SPDX-License-Identifier: Apache-2.0
// The frame of the page: who is signed in, navigation, the view of the address, palette, keys and notices.

import { Component, type ComponentChildren } from 'preact';
import { useCallback, useEffect, useState } from 'preact/hooks';
import { asProblem, onSignedOut, type Problem } from './api';
import { useCommands } from './commands';
import { KeysHelp } from './components/keys_help';
import { Palette } from './components/palette';
import { ProblemBox } from './components/problem';
import { type Binding, useKeys } from './keys';
import { OfferDialog, signOut, SignIn, start, type Start } from './login';
import { MeContext } from './me';
import { copy, Notices, notify } from './notice';
import { match, navigate, usePlace } from './router';
import { setTheme, theme, type Theme } from './theme';
import type { Me } from './types';
import { type View, views } from './views';

const THEMES: Record<Theme, Theme> = { system: 'dark', dark: 'light', light: 'system' };

// A view that throws shows what failed; the rest of the page goes on.
class Guard extends Component<{ children: ComponentChildren }, { problem: Problem | null }> {
  override state = { problem: null };
  override componentDidCatch(error: unknown) {
    console.error(error);
    this.setState({ problem: asProblem(error) });
  }
  render() {
    return this.state.problem ? <ProblemBox problem={this.state.problem} onRetry={() => location.reload()} /> : this.props.children;
  }
}

function viewOf(path: string): { view: View; parts: Record<string, string> } | null {
  for (const view of views) {
    const parts = match(view.path, path);
    if (parts) return { view, parts };
  }
  return null;
}

function titleOf(view: View, parts: Record<string, string>): string {
  return view.title.replace(/\{(\w+)\}/g, (_, name: string) => parts[name] ?? '');
}

function Header({ me, section, onPalette, onKeys }: { me: Me; section: string; onPalette: () => void; onKeys: () => void }) {
  const [chosen, setChosen] = useState(theme);
  const nextTheme = () => {
    setTheme(THEMES[chosen]);
    setChosen(THEMES[chosen]);
  };
  return (
    <header class="top">
      <a class="brand" href="#/" aria-label="profd: fleet">
        <i aria-hidden="true" />
        profd
      </a>
      <nav aria-label="Views">
        {views
          .filter((view) => view.key)
          .map((view) => (
            <a key={view.path} href={'#' + view.path} aria-current={view.path === section ? 'page' : undefined} title={`g ${view.key}`}>
              {view.title}
            </a>
          ))}
      </nav>
      <button type="button" class="find" onClick={onPalette}>
        <span>Search</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="who" title={`profd ${me.version} on ${me.host}`}>
        {me.user}
        <small>{me.role}</small>
      </span>
      <button type="button" class="quiet" onClick={nextTheme} aria-label={`Colours: ${chosen}`} title={`Colours: ${chosen}`}>
        {chosen === 'system' ? '◐' : chosen === 'dark' ? '●' : '○'}
      </button>
      <button type="button" class="quiet" onClick={onKeys} aria-label="Keys" title="Keys (?)">
        ?
      </button>
    </header>
  );
}

function Page({ me, onSignOut }: { me: Me; onSignOut: () => void }) {
  const { path } = usePlace();
  const [open, setOpen] = useState<'palette' | 'keys' | null>(null);
  const found = viewOf(path);
  const title = found ? titleOf(found.view, found.parts) : 'Not found';
  const close = useCallback(() => setOpen(null), []);

  const bindings: Binding[] = [
    { keys: 'Ctrl+k', label: 'Search everything', run: () => setOpen('palette'), typing: true },
    { keys: '?', label: 'Show all keys', run: () => setOpen('keys') },
    ...views
      .filter((view) => view.key)
      .map((view): Binding => ({ keys: `g ${view.key}`, label: view.title, run: () => navigate(view.path) })),
    { keys: 'c', label: 'Copy the link of this view', run: () => void copy(location.href, 'Link') },
  ];
  useKeys('Everywhere', bindings);
  useCommands([
    ...views.filter((view) => view.key).map((view) => ({ title: `Go to ${view.title}`, hint: `g ${view.key}`, run: () => navigate(view.path) })),
    { title: 'Copy the link of this view', hint: 'c', run: () => void copy(location.href, 'Link') },
    { title: 'Use dark colours', run: () => setTheme('dark') },
    { title: 'Use light colours', run: () => setTheme('light') },
    { title: 'Use the colours of the system', run: () => setTheme('system') },
    { title: 'Show all keys', hint: '?', run: () => setOpen('keys') },
    { title: 'Sign out', run: onSignOut },
  ]);
  useEffect(() => {
    document.title = `${title} · profd`;
  }, [title]);

  const Content = found?.view.component;
  return (
    <>
      <Header me={me} section={found?.view.section ?? found?.view.path ?? ''} onPalette={() => setOpen('palette')} onKeys={() => setOpen('keys')} />
      <main class={found?.view.wide ? 'wide' : undefined}>
        <Guard key={path}>
          {Content ? (
            <Content parts={found.parts} />
          ) : (
            <p class="empty">
              There is no view at {path}. <a href="#/">Go to the fleet</a>
            </p>
          )}
        </Guard>
      </main>
      {open === 'palette' && <Palette onClose={close} />}
      {open === 'keys' && <KeysHelp onClose={close} />}
      <Notices />
    </>
  );
}

export function App() {
  const [state, setState] = useState<Start | null>(null);
  const begin = useCallback(() => void start().then(setState), []);
  useEffect(() => {
    onSignedOut(() => setState({ signIn: null }));
    begin();
    // A second address of profctl web, opened in this tab.
    const changed = () => {
      if (location.hash.startsWith('#code=')) begin();
    };
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  useEffect(() => {
    if (state && 'failed' in state && state.failed) notify(`Not signed in again: ${state.failed.detail}. You stay signed in as ${state.me.user}.`);
  }, [state]);
  if (!state) return null;
  const offer = state.offer && <OfferDialog offer={state.offer} onClose={() => setState({ ...state, offer: undefined })} />;
  if (!('me' in state))
    return (
      <>
        <SignIn problem={state.signIn} onStart={begin} />
        {offer}
      </>
    );
  return (
    <MeContext.Provider value={state.me}>
      <Page me={state.me} onSignOut={() => void signOut().then(() => setState({ signIn: null }))} />
      {offer}
    </MeContext.Provider>
  );
}

// SPDX-License-Identifier: Apache-2.0
// Signing in: the address that profctl web prints has a code in its fragment, which no server sees. The code is exchanged
// for a token that this tab alone keeps. Without one the page asks for the code, and goes on to the address it was opened with.

import { useState } from 'preact/hooks';
import { asProblem, get, type Problem, send, token, useAction } from './api';
import { Dialog } from './components/dialog';
import { ProblemBox } from './components/problem';
import type { Me, Role } from './types';

interface Login {
  token: string;
  user: string;
  role: Role;
}

// Who signed in last in this browser: what another person's link would change.
const LAST_USER = 'profd:user';

// Codes are what follows #code= up to the next parameter; &to=/traces/t12 names the view to go on to.
function codeOf(text: string): { code: string; to: string | null } | null {
  const trimmed = text.trim();
  const mark = trimmed.indexOf('#');
  const fragment = new URLSearchParams(mark < 0 ? trimmed : trimmed.slice(mark + 1));
  const code = fragment.get('code') ?? (mark < 0 && /^[\w-]{16,}$/.test(trimmed) ? trimmed : null);
  const to = fragment.get('to');
  return code ? { code, to: to?.startsWith('/') ? to : null } : null;
}

// Without the token of this tab, which a wrong code must not end.
function exchange(code: string): Promise<Login> {
  return send<Login>('POST', '/v1/web/login', { code }, undefined, null);
}

// The token before stays valid: tabs that this one opened have it, too.
function accept(login: Login): void {
  token.set(login.token);
  localStorage.setItem(LAST_USER, login.user);
}

// profd ends the token; what comes of that matters to nobody.
function forget(unused: string): void {
  send('DELETE', '/v1/web/login', undefined, undefined, unused).catch(() => {});
}

// A link that signs in as somebody else than before. Whoever made it would see what is done here, as theirs.
interface Offer {
  login: Login;
  me: Me | null; // who is signed in now
  before: string;
}

export type Start = ({ me: Me; failed?: Problem } | { signIn: Problem | null }) & { offer?: Offer | undefined };

async function whoIsSignedIn(): Promise<Start> {
  try {
    return token.get() ? { me: await get<Me>('/v1/web/me') } : { signIn: null };
  } catch (error) {
    const problem = asProblem(error);
    return { signIn: problem.status === 401 ? null : problem };
  }
}

// What the page begins with. The code leaves the address, and so the history, before it is used.
export async function start(): Promise<Start> {
  const found = location.hash.startsWith('#code=') ? codeOf(location.hash) : null;
  if (!found) return whoIsSignedIn();
  history.replaceState(null, '', '#' + (found.to ?? '/'));
  let login: Login;
  try {
    login = await exchange(found.code);
  } catch (error) {
    const now = await whoIsSignedIn();
    return 'me' in now ? { ...now, failed: asProblem(error) } : { signIn: asProblem(error) };
  }
  const now = await whoIsSignedIn();
  const me = 'me' in now ? now.me : null;
  const before = me?.user ?? localStorage.getItem(LAST_USER);
  if (before && before !== login.user) return { ...now, offer: { login, me, before } };
  accept(login);
  return whoIsSignedIn();
}

export async function signOut(): Promise<void> {
  try {
    await send('DELETE', '/v1/web/login');
  } finally {
    token.drop();
  }
}

export function OfferDialog({ offer, onClose }: { offer: Offer; onClose: () => void }) {
  const { login, me, before } = offer;
  const refuse = () => {
    forget(login.token);
    onClose();
  };
  return (
    <Dialog label="Sign in as another user?" onClose={refuse}>
      <h2>Sign in as another user?</h2>
      <p>
        This link signs in as <b>{login.user}</b> with role {login.role}. {me ? 'You are signed in as' : 'This browser was last signed in as'} <b>{before}</b>
        {me && ` with role ${me.role}`}.
      </p>
      <p>What you do after that counts as done by {login.user}, who can see it. Do not switch if somebody sent you the link.</p>
      <div class="buttons">
        <button
          type="button"
          class="danger"
          onClick={() => {
            accept(login);
            // Nothing that was read with the other token stays.
            location.reload();
          }}
        >
          Switch to {login.user}
        </button>
        <button type="button" autofocus onClick={refuse}>
          {me ? `Stay ${before}` : 'Do not sign in'}
        </button>
      </div>
    </Dialog>
  );
}

export function SignIn({ problem, onStart }: { problem: Problem | null; onStart: () => void }) {
  const [text, setText] = useState('');
  const found = codeOf(text);
  const signIn = useAction(async () => {
    accept(await exchange(found!.code));
    onStart();
  });
  const shown = signIn.problem ?? problem;
  return (
    <main class="signin">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (found) signIn.run();
        }}
      >
        <h1>profd</h1>
        <p>
          Open this page with <kbd>profctl web</kbd>. It prints an address that signs you in once.
        </p>
        <label for="code">Address or code that profctl web printed</label>
        <input id="code" type="text" autocomplete="off" spellcheck={false} autofocus value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={!found || signIn.busy}>
          Sign in
        </button>
        {location.hash.length > 2 && <p class="hint">The page continues at {location.hash}.</p>}
        <ProblemBox problem={shown} />
        {!shown && <p class="hint">A code is valid once, for 60 s.</p>}
      </form>
    </main>
  );
}

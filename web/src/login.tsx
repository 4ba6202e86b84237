// SPDX-License-Identifier: Apache-2.0
// Signing in: the address that profctl web prints has a code in its fragment, which no server sees. The code is exchanged
// for a token that this tab alone keeps. Without one the page asks for the code, and goes on to the address it was opened with.

import { useState } from 'preact/hooks';
import { asProblem, get, type Problem, send, token, useAction } from './api';
import { ProblemBox } from './components/problem';
import type { Me } from './types';

interface Login {
  token: string;
}

// Codes are what follows #code= up to the next parameter; &to=/traces/t12 names the view to go on to.
export function codeOf(text: string): { code: string; to: string | null } | null {
  const trimmed = text.trim();
  const mark = trimmed.indexOf('#');
  const fragment = new URLSearchParams(mark < 0 ? trimmed : trimmed.slice(mark + 1));
  const code = fragment.get('code') ?? (mark < 0 && /^[\w-]{16,}$/.test(trimmed) ? trimmed : null);
  const to = fragment.get('to');
  return code ? { code, to: to?.startsWith('/') ? to : null } : null;
}

async function exchange(code: string): Promise<void> {
  token.set((await send<Login>('POST', '/v1/web/login', { code })).token);
}

export type Start = { me: Me } | { signIn: Problem | null };

// What the page begins with. The code leaves the address, and so the history, before it is used.
export async function start(): Promise<Start> {
  const found = location.hash.startsWith('#code=') ? codeOf(location.hash) : null;
  if (found) {
    history.replaceState(null, '', '#' + (found.to ?? '/'));
    try {
      await exchange(found.code);
    } catch (error) {
      return { signIn: asProblem(error) };
    }
  }
  try {
    return { me: await get<Me>('/v1/web/me') };
  } catch (error) {
    const problem = asProblem(error);
    return { signIn: problem.status === 401 && !found ? null : problem };
  }
}

export async function signOut(): Promise<void> {
  try {
    await send('DELETE', '/v1/web/login');
  } finally {
    token.drop();
  }
}

export function SignIn({ problem, onStart }: { problem: Problem | null; onStart: () => void }) {
  const [text, setText] = useState('');
  const found = codeOf(text);
  const signIn = useAction(async () => {
    await exchange(found!.code);
    onStart();
  });
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
        <p class="hint">{location.hash.length > 2 ? `You will continue at ${location.hash}` : 'A code is valid for 60 seconds.'}</p>
        <ProblemBox problem={signIn.problem ?? problem} />
      </form>
    </main>
  );
}

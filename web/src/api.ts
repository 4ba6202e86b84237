// SPDX-License-Identifier: Apache-2.0
// Requests to profd's HTTP API (proto/openapi.yaml) with the token of this tab. Errors are Problems, which every view can
// show. Event streams are in events.ts.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Remark } from './types';

export class Problem extends Error {
  override name = 'Problem';
  constructor(
    readonly status: number, // 0: no answer
    readonly code: string,
    readonly detail: string,
    readonly remedy = '',
    readonly remarks: Remark[] = [],
    // Of a host that did not answer: the traces that it was asked for, and those that others have.
    readonly remote: { host: string; traces?: string[]; left?: string[] } | null = null,
  ) {
    super(detail);
  }
}

const TOKEN = 'profd:token';
let signedOut: () => void = () => {};

export const token = {
  get: (): string | null => sessionStorage.getItem(TOKEN),
  set: (value: string): void => sessionStorage.setItem(TOKEN, value),
  drop: (): void => sessionStorage.removeItem(TOKEN),
};

// Called when profd no longer accepts the token.
export function onSignedOut(callback: () => void): void {
  signedOut = callback;
}

export interface Options {
  method?: string;
  body?: unknown;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  token?: string | null; // in place of that of this tab; null: none
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const found = (await response.json()) as Record<string, unknown>;
    const text = (name: string) => (typeof found[name] === 'string' ? (found[name] as string) : '');
    const remarks = Array.isArray(found['remarks']) ? (found['remarks'] as Remark[]) : [];
    const remote = found['remote'] as Problem['remote'] | undefined;
    return new Problem(response.status, text('code'), text('detail') || text('title') || response.statusText, text('remedy'), remarks, remote ?? null);
  } catch {
    return new Problem(response.status, '', `profd answered with status ${response.status} ${response.statusText}`.trim());
  }
}

// The response to a request that succeeded; a Problem is thrown otherwise, an AbortError after signal.abort().
export async function request(path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  const mine = options.token === undefined ? token.get() : options.token;
  if (mine) headers['Authorization'] = 'Bearer ' + mine;
  const init: RequestInit = { method: options.method ?? 'GET', headers, credentials: 'omit', signal: options.signal ?? null };
  if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem(0, 'unreachable', 'profd does not answer', 'Check that profd and profctl web are running. The page tries again.');
  }
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (response.status === 401 && mine && token.get() === mine) {
    token.drop();
    signedOut();
  }
  throw problem;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await request(path, { signal })).json()) as T;
}

export async function send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, signal?: AbortSignal, as?: string | null): Promise<T> {
  const response = await request(path, { method, body, signal, ...(as === undefined ? {} : { token: as }) });
  const text = await response.text();
  return (text ? JSON.parse(text) : {}) as T;
}

// Bytes, for typed arrays over them.
export async function bytes(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  return (await request(path, { signal })).arrayBuffer();
}

// 'traces?limit=3' with parameters that are null, undefined or empty left out.
export function withQuery(path: string, parameters: Record<string, string | number | boolean | null | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return text ? path + '?' + text : path;
}

// Downloads through an address that works once: a link carries no token.
export async function download(path: string): Promise<void> {
  const { url } = await send<{ url: string }>('POST', '/v1/tickets', { path });
  const link = document.createElement('a');
  link.href = url;
  link.download = '';
  link.click();
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, 'page', `The page failed: ${error instanceof Error ? error.message : String(error)}`, 'Reload the page.');
}

export interface Loaded<T> {
  data: T | null; // of the last answer; stays while the next one is loading
  problem: Problem | null;
  loading: boolean;
  reload: () => void;
}

// GETs a path when it changes, and again after reload(). A path of null asks nothing. Requests that nobody waits for any
// more are aborted, which ends their work in profd.
export function useGet<T>(path: string | null): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; problem: Problem | null; loading: boolean }>({
    path: null,
    data: null,
    problem: null,
    loading: path !== null,
  });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) {
      setState({ path, data: null, problem: null, loading: false });
      return undefined;
    }
    const control = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    get<T>(path, control.signal).then(
      (data) => setState({ path, data, problem: null, loading: false }),
      (error: unknown) => {
        if (!isAbort(error)) setState((old) => ({ path, data: old.path === path ? old.data : null, problem: asProblem(error), loading: false }));
      },
    );
    return () => control.abort();
  }, [path, turn]);
  const reload = useCallback(() => setTurn((old) => old + 1), []);
  return { data: state.data, problem: state.problem, loading: state.loading, reload };
}

// Something to do on a click: busy while it runs, with the problem if it failed.
export function useAction<A extends unknown[]>(action: (...arguments_: A) => Promise<unknown>): {
  run: (...arguments_: A) => void;
  busy: boolean;
  problem: Problem | null;
  clear: () => void;
} {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const latest = useRef(action);
  latest.current = action;
  const run = useCallback((...arguments_: A) => {
    setBusy(true);
    setProblem(null);
    latest.current(...arguments_).then(
      () => setBusy(false),
      (error: unknown) => {
        setBusy(false);
        if (!isAbort(error)) setProblem(asProblem(error));
      },
    );
  }, []);
  return { run, busy, problem, clear: useCallback(() => setProblem(null), []) };
}

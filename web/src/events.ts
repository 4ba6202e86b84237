// SPDX-License-Identifier: Apache-2.0
// Server-sent events over fetch, because EventSource cannot send a token. A browser has six connections to a host, so all
// tabs share one stream of each address: one tab holds a lock and reads, the others listen on a channel, and another tab
// takes over when the first one closes. Where there are no locks (plain HTTP to another host), each tab has its own stream
// while it is visible.

import { useEffect, useRef } from 'preact/hooks';
import { asProblem, isAbort, type Problem, request } from './api';

interface ServerEvent {
  id: string;
  kind: string;
  data: unknown;
}

type Listener = (event: ServerEvent) => void;

// The kind of an event of the page itself: the stream failed, and is tried again. Its data is a ProblemData.
export const PROBLEM = 'problem';
export type ProblemData = Pick<Problem, 'status' | 'code' | 'detail' | 'remedy'>;

const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 15_000;
// An event without an end must not fill the tab.
const EVENT_MAX = 16 << 20;

// Reads one stream to its end.
async function readEvents(path: string, listener: Listener, signal: AbortSignal): Promise<void> {
  const response = await request(path, { signal, headers: { Accept: 'text/event-stream' } });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = { id: '', kind: 'message', data: [] as string[] };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n/);
    rest = lines.pop()!;
    if (rest.length > EVENT_MAX) throw new Error('an event is too large');
    for (const line of lines) {
      if (line === '') {
        if (event.data.length > 0) listener({ id: event.id, kind: event.kind, data: JSON.parse(event.data.join('\n')) });
        event = { id: event.id, kind: 'message', data: [] };
      } else if (line.startsWith('data:')) {
        event.data.push(line.slice(5).trimStart());
      } else if (line.startsWith('event:')) {
        event.kind = line.slice(6).trim();
      } else if (line.startsWith('id:')) {
        event.id = line.slice(3).trim();
      }
    }
  }
}

// Reads again and again until the signal, after a longer and longer time while there is no answer.
async function follow(path: string, listener: Listener, signal: AbortSignal): Promise<void> {
  let delay = RETRY_MIN_MS;
  let last = '';
  while (!signal.aborted) {
    try {
      const separator = path.includes('?') ? '&' : '?';
      await readEvents(
        last === '' ? path : `${path}${separator}after=${encodeURIComponent(last)}`,
        (event) => {
          delay = RETRY_MIN_MS;
          last = event.id;
          listener(event);
        },
        signal,
      );
      // profd ended the stream: it restarts, or this client was too slow.
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      const { status, code, detail, remedy } = asProblem(error);
      const data: ProblemData = { status, code, detail, remedy };
      listener({ id: last, kind: PROBLEM, data });
      // What was refused will be refused again.
      if (status >= 400 && status < 500) delay = RETRY_MAX_MS;
      delay = Math.min(2 * delay, RETRY_MAX_MS);
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, delay);
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
}

interface Stream {
  listeners: Set<Listener>;
  last: ServerEvent | null;
  stop: () => void;
}

const streams = new Map<string, Stream>();

function leaderOf(path: string, deliver: Listener, control: AbortController): void {
  const name = 'profd:events:' + path;
  const channel = new BroadcastChannel(name);
  let newest: ServerEvent | null = null;
  let leads = false;
  channel.onmessage = (message: MessageEvent<ServerEvent | 'hello'>) => {
    if (message.data !== 'hello') deliver(message.data);
    else if (leads && newest) channel.postMessage(newest);
  };
  // What the leader saw last, so that a new tab need not wait for the next event.
  channel.postMessage('hello');
  navigator.locks
    .request(name, { signal: control.signal }, async () => {
      leads = true;
      await follow(
        path,
        (event) => {
          newest = event;
          channel.postMessage(event);
          deliver(event);
        },
        control.signal,
      );
    })
    .catch(() => {})
    .finally(() => channel.close());
}

function alone(path: string, deliver: Listener, control: AbortController): void {
  let visible: AbortController | null = null;
  const look = () => {
    if (document.hidden) {
      visible?.abort();
      visible = null;
    } else if (!visible) {
      visible = new AbortController();
      void follow(path, deliver, visible.signal);
    }
  };
  document.addEventListener('visibilitychange', look);
  control.signal.addEventListener('abort', () => {
    document.removeEventListener('visibilitychange', look);
    visible?.abort();
  });
  look();
}

// Calls the listener with each event of the stream, beginning with the last one that this browser has. Returns what ends it.
function subscribe(path: string, listener: Listener): () => void {
  let stream = streams.get(path);
  if (!stream) {
    const control = new AbortController();
    const created: Stream = { listeners: new Set(), last: null, stop: () => control.abort() };
    const deliver: Listener = (event) => {
      created.last = event;
      for (const each of created.listeners) each(event);
    };
    streams.set(path, created);
    ('locks' in navigator ? leaderOf : alone)(path, deliver, control);
    stream = created;
  } else if (stream.last) {
    listener(stream.last);
  }
  stream.listeners.add(listener);
  const mine = stream;
  return () => {
    mine.listeners.delete(listener);
    if (mine.listeners.size === 0 && streams.get(path) === mine) {
      streams.delete(path);
      mine.stop();
    }
  };
}

// subscribe() while a component is shown; a path of null is none.
export function useEvents(path: string | null, listener: Listener): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => (path === null ? undefined : subscribe(path, (event) => latest.current(event))), [path]);
}

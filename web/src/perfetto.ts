// SPDX-License-Identifier: Apache-2.0
// Hands a trace, or a window of it, to a Perfetto: this page fetches the file with its token and posts the bytes to the
// other tab. Perfetto fetches nothing, so its page needs no access to profd, and localOnly keeps the trace in the browser.

import { Problem, request, withQuery } from './api';

// Perfetto's memory is a few times the file; beyond this, hand over a window.
export const HANDOVER_MAX = 1 << 30;
const PING_MS = 50;
const PONG_MAX_MS = 30_000;

export interface Handover {
  perfetto: string; // address of the Perfetto, as profd is configured
  trace: string;
  title: string;
  window?: { from: number; to: number } | undefined; // of the trace: only this part is handed over
  format?: 'file' | 'export'; // file: as it was recorded; default, without a window
}

// What is fetched for it.
export function handoverPath({ trace, window, format }: Handover): string {
  const path = `/v1/traces/${encodeURIComponent(trace)}`;
  if (!window && format !== 'export') return `${path}/file`;
  return withQuery(`${path}/export`, { format: 'chrome', from: window && Math.floor(window.from), to: window && Math.ceil(window.to) });
}

// Asks the other page until it answers. It is another origin, so its messages are checked, and it sees only this.
async function answered(page: Window, origin: string): Promise<void> {
  const begun = performance.now();
  await new Promise<void>((resolve, reject) => {
    const done = (problem?: Problem) => {
      clearInterval(timer);
      removeEventListener('message', heard);
      if (problem) reject(problem);
      else resolve();
    };
    const heard = (event: MessageEvent) => {
      if (event.source === page && event.origin === origin && event.data === 'PONG') done();
    };
    const timer = setInterval(() => {
      if (page.closed) done(new Problem(0, 'closed', 'The tab of Perfetto was closed', 'Open the trace in Perfetto again.'));
      else if (performance.now() - begun > PONG_MAX_MS)
        done(new Problem(0, 'silent', `Perfetto at ${origin} does not answer`, 'Check that this browser reaches it, or set perfetto= in the section [web] of profd.conf to one that it reaches.'));
      else page.postMessage('PING', origin);
    }, PING_MS);
    addEventListener('message', heard);
  });
}

async function fileOf(handover: Handover): Promise<ArrayBuffer> {
  const control = new AbortController();
  const response = await request(handoverPath(handover), { signal: control.signal });
  if (Number(response.headers.get('Content-Length') ?? 0) > HANDOVER_MAX) {
    control.abort();
    throw new Problem(0, 'too-large', 'The trace is too large for Perfetto', 'Zoom in on the timeline, and hand over the window.');
  }
  return response.arrayBuffer();
}

// To be called within a click: browsers open no tab otherwise.
export async function openInPerfetto(handover: Handover): Promise<void> {
  const { origin } = new URL(handover.perfetto);
  const page = window.open(handover.perfetto);
  if (!page) throw new Problem(0, 'blocked', 'The browser blocked the tab of Perfetto', 'Allow pop-ups of this page, and try again.');
  try {
    const [buffer] = await Promise.all([fileOf(handover), answered(page, origin)]);
    const name = `${handover.trace}${handover.window ? '-window' : ''}.json`;
    page.postMessage({ perfetto: { buffer, title: handover.title, fileName: name, localOnly: true } }, origin, [buffer]);
  } catch (error) {
    page.close();
    throw error;
  }
}

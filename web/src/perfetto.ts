// SPDX-License-Identifier: Apache-2.0
// Hands a trace, or a window of it, to a Perfetto: this page fetches the file with its token and posts the bytes to the
// other tab. Perfetto fetches nothing, so its page needs no access to profd, and localOnly keeps the trace in the browser.

import { Problem, request, withQuery } from './api';

// Perfetto's memory is a few times the file; beyond this, hand over a window.
export const HANDOVER_MAX = 1 << 30;
const PING_MS = 50;
const PONG_MAX_MS = 30_000;

interface Handover {
  perfetto: string; // address of the Perfetto, as profd is configured
  trace: string;
  title: string;
  window?: { from: number; to: number } | undefined; // of the trace: only this part is handed over
  format?: 'file' | 'export'; // file: as it was recorded; default, without a window
}

// What is fetched for it.
function handoverPath({ trace, window, format }: Handover): string {
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

const tooLarge = () => new Problem(0, 'too-large', 'The trace is too large for Perfetto', 'Zoom in on the timeline, and hand over the window.');

// The bytes of a response, of at most `max`. What its head claims about the size decides nothing but an early refusal: an export
// has no length before its end, and the length of a compressed answer is not that of its bytes.
export async function bounded(response: Response, max: number): Promise<ArrayBuffer> {
  const reader = response.body!.getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  const refuse = async () => {
    await reader.cancel().catch(() => {});
    throw tooLarge();
  };
  if (Number(response.headers.get('Content-Length') ?? 0) > max) await refuse();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.byteLength;
    if (size > max) await refuse();
    parts.push(value);
  }
  return joined(parts, size);
}

// Each part is given up when it was copied, so that the memory is not twice the file's for long.
function joined(parts: Uint8Array[], size: number): ArrayBuffer {
  let all: Uint8Array;
  try {
    all = new Uint8Array(size);
  } catch {
    throw tooLarge(); // the browser has no more memory for a page
  }
  parts.reverse();
  for (let at = 0, part = parts.pop(); part; at += part.byteLength, part = parts.pop()) all.set(part, at);
  return all.buffer as ArrayBuffer;
}

async function fileOf(handover: Handover): Promise<ArrayBuffer> {
  return bounded(await request(handoverPath(handover)), HANDOVER_MAX);
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

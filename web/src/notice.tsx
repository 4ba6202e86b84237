// SPDX-License-Identifier: Apache-2.0
// Short notices at the edge of the window: "Link copied". They go by themselves and are read by screen readers.

import { useEffect, useState } from 'preact/hooks';

const SHOWN_MS = 3000;
let show: (text: string) => void = () => {};

export function notify(text: string): void {
  show(text);
}

export function Notices() {
  const [text, setText] = useState('');
  useEffect(() => {
    show = setText;
  }, []);
  useEffect(() => {
    if (!text) return undefined;
    const timer = setTimeout(() => setText(''), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class={text ? 'notice shown' : 'notice'} role="status" aria-live="polite">
      {text}
    </div>
  );
}

// The clipboard is missing on plain HTTP to another host.
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(`${what} copied`);
  } catch {
    notify(`${what}: ${text}`);
  }
}

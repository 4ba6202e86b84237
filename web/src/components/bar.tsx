// SPDX-License-Identifier: Apache-2.0
// Bars: one of several parts with a legend, and a small one for a cell of a table.

import type { ComponentChildren } from 'preact';

export interface Part {
  label: string;
  value: number;
  color: string; // CSS
  text: string; // the value with its unit
}

// Parts of a total; what is left of it stays empty.
export function Bar({ label, parts, total }: { label: string; parts: Part[]; total: number }) {
  const share = (value: number) => (total > 0 ? Math.max(0, Math.min(1, value / total)) * 100 : 0);
  return (
    <figure class="bar" aria-label={`${label}: ${parts.map((part) => `${part.label} ${part.text}`).join(', ')}`}>
      <div class="bar-track" aria-hidden="true">
        {parts.map((part) => (
          <span key={part.label} title={`${part.label} ${part.text}`} style={{ width: `${share(part.value)}%`, background: part.color }} />
        ))}
      </div>
      <figcaption aria-hidden="true">
        {parts.map((part) => (
          <span key={part.label}>
            <i style={{ background: part.color }} />
            {part.label} <b>{part.text}</b>
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

// A value of a cell with a bar behind it: `ratio` is 0 to 1.
export function Share({ ratio, costs, children }: { ratio: number; costs?: boolean; children: ComponentChildren }) {
  return (
    <span class={costs ? 'share costs' : 'share'}>
      <span style={{ width: `${Math.max(0, Math.min(1, ratio)) * 100}%` }} />
      <b>{children}</b>
    </span>
  );
}

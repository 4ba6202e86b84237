// SPDX-License-Identifier: Apache-2.0
// What a user chose about tracks, remembered in this browser for traces of the same kind.

import type { Choices } from './layout';
import type { TimelineHead } from './source';

const PREFIX = 'profd:tracks:';
const KEPT_MAX = 400; // choices of tracks; more than any trace has by hand

// Traces with the same kinds of tracks look alike: PyTorch's with a GPU, nsys', ...
export function kindOfTrace(head: TimelineHead): string {
  return [...new Set(head.tracks.map((track) => track.kind))].sort().join('+') || 'empty';
}

export function readChoices(kind: string): Choices {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(PREFIX + kind) ?? 'null');
    if (found && typeof found === 'object') {
      const { tracks, order } = found as Partial<Choices>;
      return {
        tracks: tracks && typeof tracks === 'object' ? tracks : {},
        order: Array.isArray(order) ? order.filter((key): key is string => typeof key === 'string') : [],
      };
    }
  } catch {
    // Unreadable, or no storage: as usual.
  }
  return { tracks: {}, order: [] };
}

export function writeChoices(kind: string, choices: Choices): void {
  const tracks = Object.fromEntries(Object.entries(choices.tracks).slice(-KEPT_MAX));
  try {
    localStorage.setItem(PREFIX + kind, JSON.stringify({ tracks, order: choices.order.slice(0, KEPT_MAX) }));
  } catch {
    // A full storage forgets; the page goes on.
  }
}

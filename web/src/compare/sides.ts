// SPDX-License-Identifier: Apache-2.0
// What the sides of a comparison are: words as profctl takes them ("t12", "t12,t13", "s7", "r3,r4"). Pure.

export type Kind = 'traces' | 'session' | 'runs';

export interface Side {
  kind: Kind;
  ids: string[];
}

const KINDS: Record<string, Kind> = { t: 'traces', s: 'session', r: 'runs' };

// null: no side, or one of several kinds.
export function sideOf(words: string): Side | null {
  const ids = words.toLowerCase().split(/[\s,]+/).filter(Boolean);
  const kind = KINDS[ids[0]?.[0] ?? ''];
  if (!kind || ids.some((id) => !/^[tsr]\d+$/.test(id) || KINDS[id[0]!] !== kind) || (kind === 'session' && ids.length > 1)) return null;
  return { kind, ids };
}

export function bodyOf(side: Side): object {
  return side.kind === 'runs' ? { runs: side.ids } : tracesOf(side);
}

// Of a side that has traces.
export function tracesOf(side: Side): { session: string } | { traces: string[] } {
  return side.kind === 'session' ? { session: side.ids[0]! } : { traces: side.ids };
}

// Traces may be compared with sessions; runs with runs only.
export function comparable(a: Side, b: Side): boolean {
  return (a.kind === 'runs') === (b.kind === 'runs');
}

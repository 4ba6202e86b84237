// SPDX-License-Identifier: Apache-2.0
// Areas of several tracks: profd answers for one range of lanes, so ranges that touch become one, and answers are added up.

import type { SelectionResult, SelectionRow } from './source';

// More ranges would be more requests; gaps between ranges are filled from the smallest one on.
const RANGES_MAX = 8;

export function joinRanges(lanes: readonly (readonly [number, number])[]): [number, number][] {
  const joined: [number, number][] = [];
  for (const [from, to] of [...lanes].sort((a, b) => a[0] - b[0])) {
    const last = joined[joined.length - 1];
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  while (joined.length > RANGES_MAX) {
    let at = 1;
    for (let i = 2; i < joined.length; i++) if (joined[i]![0] - joined[i - 1]![1] < joined[at]![0] - joined[at - 1]![1]) at = i;
    joined[at - 1]![1] = joined[at]![1];
    joined.splice(at, 1);
  }
  return joined;
}

export function mergeSelections(from: number, to: number, parts: readonly SelectionResult[]): SelectionResult {
  if (parts.length === 1) return parts[0]!;
  const rows = new Map<string, SelectionRow>();
  for (const row of parts.flatMap((part) => part.rows)) {
    const key = JSON.stringify([row.name, row.category]);
    const known = rows.get(key);
    if (!known) {
      rows.set(key, { ...row });
      continue;
    }
    known.count += row.count;
    known.sum += row.sum;
    known.self += row.self;
    known.min = Math.min(known.min, row.min);
    known.max = Math.max(known.max, row.max);
    known.mean = known.sum / known.count;
  }
  const sum = (of: (part: SelectionResult) => number) => parts.reduce((all, part) => all + of(part), 0);
  return {
    from,
    to,
    count: sum((part) => part.count),
    busy: sum((part) => part.busy),
    rows: [...rows.values()].sort((a, b) => b.sum - a.sum),
    more: parts.some((part) => part.more),
  };
}

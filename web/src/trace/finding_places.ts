// SPDX-License-Identifier: Apache-2.0
// Where findings are: the time that a sentence names, and the slice that it is of. Pure.

import { type Row, type Span, spanIn, text } from '../reports';

// The time that a finding names: its sentence about the place first.
export function findingSpan(row: Row): Span | null {
  for (const name of ['where', 'what', 'evidence']) {
    const span = spanIn(text(row, name));
    if (span) return span;
  }
  return null;
}

// Sentences have times to the microsecond.
const ROUNDED_NS = 1000;

// The slice that each span is of: one that begins and ends with it, as "longest: ..." has. Chains and gaps are of none.
export function slicesSql(spans: Span[]): string {
  return spans
    .map(
      ({ from, to }, i) =>
        `select ${i}, (select id from slice where ts between first + ${from - ROUNDED_NS} and first + ${from + ROUNDED_NS} ` +
        `and abs(ts + dur - first - ${to}) <= ${2 * ROUNDED_NS} order by depth desc limit 1) from (select min(ts) as first from slice)`,
    )
    .join(' union all ');
}

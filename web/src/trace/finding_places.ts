// SPDX-License-Identifier: Apache-2.0
// Where findings are, by their columns at_*, and addresses of views that show more of them. Pure.

import { type Row, type Span, text, windowAround } from '../reports';
import { address } from '../router';

interface FindingPlace extends Span {
  rank: number | null;
  slice: number | null;
}

// Null of a finding that is of no particular time.
export function placeOf(row: Row): FindingPlace | null {
  const [rank, from, to, slice] = ['at_rank', 'at_start_ns', 'at_end_ns', 'at_slice'].map((name) => {
    const value = row[name];
    return typeof value === 'number' ? value : null;
  });
  return typeof from === 'number' && typeof to === 'number' && to > from ? { from, to, rank: rank ?? null, slice: slice ?? null } : null;
}

export function timelineAddress(trace: string, place: FindingPlace): string {
  const { from, to } = windowAround(place);
  return address(`/traces/${trace}/timeline`, { from, to, slice: place.slice });
}

// Reports that compare ranks are a view of the session; every other one is a table of the trace.
const OF_RANKS = ['ranks', 'stragglers', 'imbalance'];

export function reportAddress(row: Row, trace: string | null, session?: string): string | null {
  const report = text(row, 'report');
  if (OF_RANKS.includes(report)) return session ? address(`/sessions/${session}/ranks`) : null;
  return trace && report ? address('/sql', { trace, q: `SELECT *\nFROM report_${report}` }) : null;
}

// Of the traces of an engine instance, the one of the rank where the finding is.
export function traceOf(row: Row, traces: string[], rankOf: (trace: string) => number | undefined): string | null {
  const rank = placeOf(row)?.rank;
  return (rank === null || rank === undefined ? undefined : traces.find((id) => rankOf(id) === rank)) ?? (traces.length === 1 ? traces[0]! : null);
}

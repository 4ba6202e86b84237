// SPDX-License-Identifier: Apache-2.0
// What the reports of a session say about its ranks, put together: by engine instance, rank and step. Pure.

import { number, type ReportPart, type Reports, type Row, rowsOf, text } from '../reports';
import type { Trace } from '../types';

// Reports that the view is made of.
export const RANK_REPORTS = ['ranks', 'stragglers', 'steps', 'imbalance'];

export interface Rank {
  rank: number;
  trace: string;
  host: string; // that keeps the trace
  shift: number; // ns to add to its clock, for that of the first rank
  clockError: number | null;
  outlier: string; // 'comm low', ...
}

interface StepCell {
  start: number; // ns after the first slice of the rank's trace
  dur: number;
}

export interface StepColumn {
  index: number;
  occurrence: number; // of several steps with one number
  label: string;
  phase: string;
  cells: (StepCell | null)[]; // by rank, in the order of Instance.ranks
  median: number;
}

export interface Straggler {
  rank: number;
  lastShare: number;
  caused: number; // wait of the others
  delay: number; // after the second to last: what would be saved
  meanwhile: string;
  meanwhileNs: number;
}

export interface Instance {
  name: string;
  host: string;
  ranks: Rank[];
  steps: StepColumn[];
  stragglers: Straggler[];
  imbalance: Row[];
}

type Part = ReportPart & { host?: string };

const partKey = (part: Part) => `${part.host ?? ''}/${part.instance ?? ''}`;

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length === 0 ? 0 : sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

// The ranks of a part in their order, each with its trace: by its number in the catalog, else by its place.
function ranksOf(part: Part, traces: ReadonlyMap<string, Trace>): Rank[] {
  const rows = rowsOf(part).filter((row) => typeof row['rank'] === 'number' && row['span_ns'] !== null);
  const ids = part.traces ?? [];
  const numbered = new Map(ids.map((id) => [traces.get(id)?.ranks?.rank, id]));
  return rows.map((row, i) => {
    const trace = numbered.get(number(row, 'rank')) ?? ids[i] ?? '';
    return {
      rank: number(row, 'rank'),
      trace,
      host: traces.get(trace)?.host ?? '',
      shift: number(row, 'clock_shift_ns'),
      clockError: typeof row['clock_error_ns'] === 'number' ? row['clock_error_ns'] : null,
      outlier: text(row, 'outlier'),
    };
  });
}

export function stragglersOf(rows: Row[]): Straggler[] {
  return rows.map((row) => ({
    rank: number(row, 'rank'),
    lastShare: number(row, 'last_share'),
    caused: number(row, 'wait_caused_ns'),
    delay: number(row, 'delay_ns'),
    meanwhile: text(row, 'meanwhile'),
    meanwhileNs: number(row, 'meanwhile_ns'),
  }));
}

// Steps side by side: the same number, and the same one of several with that number.
export function stepsOf(rows: Row[], ranks: readonly Rank[]): StepColumn[] {
  const place = new Map(ranks.map((rank, i) => [rank.rank, i]));
  const seen = new Map<string, number>();
  const columns = new Map<string, StepColumn>();
  const inOrder = [...rows].sort((a, b) => number(a, 'start_ns') - number(b, 'start_ns'));
  for (const row of inOrder) {
    // A single trace has no column of ranks to be told apart by.
    const at = place.get(number(row, 'rank')) ?? (ranks.length === 1 ? 0 : undefined);
    if (at === undefined) continue;
    const index = number(row, 'index');
    const mine = `${at}/${index}`;
    const occurrence = seen.get(mine) ?? 0;
    seen.set(mine, occurrence + 1);
    const key = `${index}/${occurrence}`;
    let column = columns.get(key);
    if (!column) columns.set(key, (column = { index, occurrence, label: text(row, 'name') || `step ${index}`, phase: text(row, 'phase'), cells: ranks.map(() => null), median: 0 }));
    column.cells[at] = { start: number(row, 'start_ns'), dur: number(row, 'dur_ns') };
  }
  for (const column of columns.values()) column.median = median(column.cells.flatMap((cell) => (cell ? [cell.dur] : [])));
  return [...columns.values()].sort((a, b) => a.index - b.index || a.occurrence - b.occurrence);
}

export function instancesOf(reports: Reports, traces: ReadonlyMap<string, Trace>): Instance[] {
  const parts = reports.parts as Part[];
  const named = (key: string, name: string) => parts.filter((part) => part.report === name && partKey(part) === key && !part.error && !part.lacking);
  const keys = [...new Set(parts.filter((part) => RANK_REPORTS.includes(part.report)).map(partKey))];
  return keys.flatMap((key) => {
    const first = parts.find((part) => partKey(part) === key)!;
    const ranksPart = named(key, 'ranks')[0];
    const rows = named(key, 'steps').flatMap((part) => rowsOf(part));
    // The report `ranks` needs two: a single one is still shown.
    const ids = first.traces ?? [];
    const ranks = ranksPart ? ranksOf(ranksPart, traces) : ids.map((trace, i): Rank => ({ rank: traces.get(trace)?.ranks?.rank ?? i, trace, host: traces.get(trace)?.host ?? '', shift: 0, clockError: null, outlier: '' }));
    if (ranks.length === 0) return [];
    return [
      {
        name: first.instance ?? '',
        host: first.host ?? '',
        ranks,
        steps: stepsOf(rows, ranks),
        stragglers: named(key, 'stragglers').flatMap((part) => stragglersOf(rowsOf(part))),
        imbalance: named(key, 'imbalance').flatMap((part) => rowsOf(part)),
      },
    ];
  });
}

// Of two ranks that are equally fast each causes half of all delays.
export function lateShare(ranks: number): number {
  return ranks > 2 ? 0.5 : 0.75;
}

// The rank that costs the others most time, as the finding `straggler` has it, if it causes such a share of all delays. How
// often a rank is last does not count: somebody is always last, if only by a microsecond.
export function lateOf(stragglers: readonly Straggler[], ranks: number): Straggler | null {
  const all = stragglers.reduce((sum, each) => sum + each.delay, 0);
  return stragglers.find((each) => each.delay > lateShare(ranks) * all) ?? null;
}

// 0: as long as the median of its step or shorter; 1: half as long again or more.
export function lateness(cell: StepCell, median: number): number {
  return median > 0 ? Math.max(0, Math.min(1, (cell.dur / median - 1) / 0.5)) : 0;
}

// Nanoseconds from a rank's own times to those that all ranks of the instance share.
export function offsetOf(first: string | undefined, base: string | undefined, shift: number): number {
  if (!first || !base || !/^-?\d+$/.test(first) || !/^-?\d+$/.test(base)) return shift;
  return Number(BigInt(first) - BigInt(base)) + shift;
}

// SPDX-License-Identifier: Apache-2.0
// Rows of reports by the names of their columns. Pure but for loadReports() and loadAllReports().

import { send } from './api';
import { type Absent, askAllHosts } from './hosts';
import { areSplit } from './ranks/split';
import type { Report, Trace } from './types';
import { size } from './units';

type Cell = string | number | boolean | null;
export type Row = Record<string, Cell>;

export interface ReportPart extends Report {
  instance?: string | null;
  traces?: string[];
  lacking?: boolean; // the traces have no events for the report
  error?: string;
}

export interface Reports {
  parts: ReportPart[];
  left: string[];
  notes: string[];
}

export function rowsOf(report: Pick<Report, 'columns' | 'rows'> | null | undefined): Row[] {
  if (!report?.columns) return [];
  return report.rows.map((cells) => Object.fromEntries(report.columns.map((name, i) => [name, cells[i] ?? null])));
}

export function number(row: Row | undefined, name: string): number {
  const value = row?.[name];
  return typeof value === 'number' ? value : 0;
}

export function text(row: Row | undefined, name: string): string {
  const value = row?.[name];
  return value === null || value === undefined ? '' : String(value);
}

// All rows of a report, of every engine instance.
export function rowsNamed(reports: Reports | null, name: string): Row[] {
  return (reports?.parts ?? []).filter((part) => part.report === name).flatMap(rowsOf);
}

// Why a report is not here: an error, or a reason that is none.
export function whyNot(reports: Reports | null, name: string): string | null {
  const parts = (reports?.parts ?? []).filter((part) => part.report === name);
  const failed = parts.find((part) => part.error);
  if (failed) return failed.error!;
  return parts.length > 0 && parts.every((part) => part.lacking) ? 'The trace has no events for this.' : null;
}

// Of traces whose comparison needs columns of several hosts: the bytes that are copied for it at most.
const TOGETHER_BYTES_MAX = 1 << 30;

// Whether profd shall copy columns of other hosts to analyze them together; a note names what that would take if it shall not.
export function togetherOf(traces: readonly Trace[]): { together: boolean; note: string } {
  if (!areSplit(traces)) return { together: false, note: '' };
  const bytes = traces.reduce((sum, trace) => sum + (trace.host_uuid ? (trace.columns_size ?? 0) : 0), 0);
  if (bytes <= TOGETHER_BYTES_MAX) return { together: true, note: '' };
  return { together: false, note: `Each host is analyzed by itself, since other hosts have ${size(bytes)} of columns. profctl analyze reads what it needs of them.` };
}

// Of all hosts of a session, or of those that have the traces.
export async function loadAllReports(of: { session: string } | { traces: string[] }, more: object, signal?: AbortSignal): Promise<Reports & { absent: Absent }> {
  // What the catalog knows about traces of a session also names instances where only traces are named, in further requests.
  const facts = 'session' in of ? { facts: true } : {};
  const { answers, absent } = await askAllHosts<Reports>('/v1/reports', of, { ...facts, ...more }, signal);
  return {
    parts: answers.flatMap((answer) => answer.parts),
    left: answers.at(-1)?.left ?? [],
    notes: [...new Set(answers.flatMap((answer) => answer.notes ?? []))],
    absent,
  };
}

// `top` rows of each report, 0 for all.
export function loadReports(traces: string[], reports: string[], top: number, signal?: AbortSignal): Promise<Reports> {
  return send<Reports>('POST', '/v1/reports', { traces, reports, top }, signal);
}

export interface Span {
  from: number; // ns after the first slice
  to: number;
}

// A window for the timeline around a span: a fifth of it on both sides, and never less than a microsecond.
export function windowAround(span: Span): Span {
  const margin = Math.max(1000, Math.round((span.to - span.from) / 5));
  return { from: Math.max(0, span.from - margin), to: span.to + margin };
}

// A name as people read it in a narrow cell: without what C++ puts before it.
export function shortName(name: string): string {
  return name.replace(/^(?:void|static|inline) +/, '');
}

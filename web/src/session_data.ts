// SPDX-License-Identifier: Apache-2.0
// Sessions as views read them: kept up to date by events, and their findings.

import { useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, isAbort, type Loaded, type Problem, useGet } from './api';
import { useEvents } from './events';
import type { Absent } from './hosts';
import { loadAllReports, type Reports, type Row, rowsOf, text } from './reports';
import type { Session, Trace } from './types';

const RELOAD_MS = 300;
// While a session is not over, bytes and ranks grow without an event.
const POLL_MS = 1000;
const FINAL = ['complete', 'partial', 'failed', 'cancelled'];

export function isOver(session: Session): boolean {
  return FINAL.includes(session.state);
}

// Traces of a worker by rank; those of no rank, and files that are no traces of a rank, after them.
export function inRankOrder(traces: readonly Trace[]): Trace[] {
  const place = (trace: Trace) => (trace.kind === 'trace' ? (trace.ranks?.rank ?? Number.MAX_SAFE_INTEGER) : Infinity);
  return [...traces].sort((a, b) => {
    const [x, y] = [place(a), place(b)];
    return x < y ? -1 : x > y ? 1 : 0;
  });
}

// GET of a path that events of a session change; `wanted` of a session alone.
export function useLive<T>(path: string, active: (data: T) => boolean, session?: string): Loaded<T> {
  const loaded = useGet<T>(path);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEvents('/v1/events', (event) => {
    const of = (event.data as { session?: string }).session;
    if (!of || (session && of !== session) || timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      loaded.reload();
    }, RELOAD_MS);
  });
  useEffect(() => () => clearTimeout(timer.current ?? undefined), []);
  const grows = loaded.data !== null && active(loaded.data);
  useEffect(() => {
    if (!grows) return undefined;
    const poll = setInterval(loaded.reload, POLL_MS);
    return () => clearInterval(poll);
  }, [grows]);
  return loaded;
}

export interface Finding {
  row: Row; // of the report findings
  instances: string[]; // of engines: the one that the sentence is about, then others that have the same finding
  traces: string[]; // of the first of these instances
}

// What several instances have is one finding, of the instance that it costs most.
function findingsOf({ parts }: Reports): Finding[] {
  const all = parts
    .filter((part) => part.report === 'findings' && part.rows)
    .flatMap((part) => rowsOf(part).map((row): Finding => ({ row, instances: part.instance ? [part.instance] : [], traces: part.traces ?? [] })))
    .sort((a, b) => costOf(b) - costOf(a));
  const byRule = new Map<string, Finding>();
  const kept: Finding[] = [];
  for (const finding of all) {
    const rule = text(finding.row, 'rule');
    const same = byRule.get(rule);
    const instance = finding.instances[0];
    if (same && instance && !same.instances.includes(instance)) {
      same.instances.push(instance);
    } else {
      byRule.set(rule, same ?? finding);
      kept.push(finding);
    }
  }
  return kept;
}

// Statements without a cost come last.
function costOf({ row }: Finding): number {
  return typeof row['cost_ns'] === 'number' ? row['cost_ns'] : -1;
}

export interface SessionFindings {
  findings: Finding[] | null;
  absent: Absent | null; // what they do without
  problem: Problem | null;
}

// The findings of all ranks of a session, the most expensive first; of none where the session is null. together: of ranks of
// several hosts as one (togetherOf).
export function useFindings(session: string | null, top: number, together = false): SessionFindings {
  const [state, setState] = useState<SessionFindings>({ findings: null, absent: null, problem: null });
  useEffect(() => {
    setState({ findings: null, absent: null, problem: null });
    if (!session) return undefined;
    const control = new AbortController();
    loadAllReports({ session }, { reports: ['findings'], top, together }, control.signal).then(
      (reports) => setState({ findings: findingsOf(reports), absent: reports.absent, problem: null }),
      (error: unknown) => {
        if (!isAbort(error)) setState({ findings: null, absent: null, problem: asProblem(error) });
      },
    );
    return () => control.abort();
  }, [session, top, together]);
  return state;
}

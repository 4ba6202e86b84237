// SPDX-License-Identifier: Apache-2.0
// Rows of a table: all of an array, or those of a list of profd, of which only what is in view is asked for.

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { asProblem, get, isAbort, type Problem } from './api';
import { type Absent, absentOf, NOTHING_ABSENT } from './hosts';

export interface Rows<T> {
  total: number;
  at: (index: number) => T | undefined; // undefined: not here yet
  want: (first: number, last: number) => void; // these are in view
  loading: boolean;
  problem: Problem | null;
  absent?: Absent; // of a list of profd: what it does without
  reload: () => void;
  loaded: T[];
}

const nothing = () => {};

export function useLocalRows<T>(rows: T[]): Rows<T> {
  return useMemo(() => ({ total: rows.length, at: (index: number) => rows[index], want: nothing, loading: false, problem: null, reload: nothing, loaded: rows }), [rows]);
}

const PAGE = 100;
// Asked for again when they come into view: a long way through a long list must not fill the tab.
const PAGES_MAX = 60;

// Rows of GET path, whose answer has them as `member`; path has search, sort and filters, but neither limit nor offset.
export function useServerRows<T>(path: string, member: string): Rows<T> {
  const pages = useRef(new Map<number, T[]>());
  const asked = useRef(new Map<number, AbortController>());
  const wanted = useRef<[number, number]>([0, 0]);
  const [state, setState] = useState<{ total: number; loading: boolean; problem: Problem | null; absent: Absent; version: number }>({
    total: 0,
    loading: true,
    problem: null,
    absent: NOTHING_ABSENT,
    version: 0,
  });
  const [turn, setTurn] = useState(0);

  const ask = useCallback(
    (page: number) => {
      const control = new AbortController();
      asked.current.set(page, control);
      const separator = path.includes('?') ? '&' : '?';
      get<Record<string, unknown>>(`${path}${separator}limit=${PAGE}&offset=${page * PAGE}&total=yes`, control.signal).then(
        (answer) => {
          if (asked.current.get(page) !== control) return;
          asked.current.delete(page);
          const rows = answer[member] as T[];
          pages.current.delete(page);
          pages.current.set(page, rows);
          for (const old of pages.current.keys()) {
            if (pages.current.size <= PAGES_MAX) break;
            pages.current.delete(old);
          }
          const total = typeof answer['total'] === 'number' ? answer['total'] : page * PAGE + rows.length;
          setState((before) => ({ total, loading: false, problem: null, absent: absentOf(answer), version: before.version + 1 }));
        },
        (error: unknown) => {
          if (asked.current.get(page) === control) asked.current.delete(page);
          if (!isAbort(error)) setState((before) => ({ ...before, loading: false, problem: asProblem(error) }));
        },
      );
    },
    [path, member],
  );

  const want = useCallback(
    (first: number, last: number) => {
      wanted.current = [first, last];
      const from = Math.floor(first / PAGE);
      const to = Math.floor(last / PAGE);
      // Pages that were passed on the way are not waited for.
      for (const [page, control] of asked.current) {
        if (page < from - 1 || page > to + 1) {
          control.abort();
          asked.current.delete(page);
        }
      }
      for (let page = from; page <= to; page++) {
        if (!pages.current.has(page) && !asked.current.has(page)) ask(page);
      }
    },
    [ask],
  );

  // Another list begins at its first row; the old rows stay in view until the new ones are here.
  const shown = useRef(path);
  useEffect(() => {
    const fresh = shown.current !== path;
    shown.current = path;
    const stale = pages.current;
    pages.current = new Map();
    for (const control of asked.current.values()) control.abort();
    asked.current.clear();
    if (fresh) wanted.current = [0, 0];
    for (let page = Math.floor(wanted.current[0] / PAGE); page <= Math.floor(wanted.current[1] / PAGE); page++) {
      const before = stale.get(page);
      ask(page);
      if (before && !fresh) pages.current.set(page, before);
    }
    setState((before) => ({ ...before, loading: true }));
    return () => {
      for (const control of asked.current.values()) control.abort();
      asked.current.clear();
    };
  }, [path, turn, ask]);

  const reload = useCallback(() => setTurn((old) => old + 1), []);
  return useMemo(
    () => ({
      total: state.total,
      at: (index: number) => pages.current.get(Math.floor(index / PAGE))?.[index % PAGE],
      want,
      loading: state.loading,
      problem: state.problem,
      absent: state.absent,
      reload,
      loaded: [...pages.current.values()].flat(),
    }),
    [state, want, reload],
  );
}

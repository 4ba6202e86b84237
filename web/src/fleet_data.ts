// SPDX-License-Identifier: Apache-2.0
// The fleets as they are now, and what their figures were while somebody looked.

import { useRef, useState } from 'preact/hooks';
import { Problem, withQuery } from './api';
import { PROBLEM, type ProblemData, useEvents } from './events';
import type { Fleet, FleetState, FleetWorker } from './types';

const HISTORY = 90; // events of two seconds each

interface Totals {
  running: number | undefined;
  waiting: number | undefined;
  kv_use: number | undefined; // mean
  ttft: number | undefined; // median of the workers' medians
  tokens: number | undefined; // per second
}

function sum(workers: FleetWorker[], name: 'running' | 'waiting' | 'tokens_per_s'): number | undefined {
  const known = workers.map((worker) => worker[name]).filter((value) => value !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => a + b, 0);
}

function totalsOf(workers: FleetWorker[]): Totals {
  const kv = workers.map((worker) => worker.kv_use).filter((value) => value !== undefined);
  const ttft = workers
    .map((worker) => worker.ttft_p50_ns)
    .filter((value) => value !== undefined)
    .sort((a, b) => a - b);
  return {
    running: sum(workers, 'running'),
    waiting: sum(workers, 'waiting'),
    kv_use: kv.length === 0 ? undefined : kv.reduce((a, b) => a + b, 0) / kv.length,
    ttft: ttft[Math.floor(ttft.length / 2)],
    tokens: sum(workers, 'tokens_per_s'),
  };
}

export interface History {
  totals: Totals[];
  waiting: Map<string, number[]>; // by worker
}

export function useFleet(parameters: Record<string, string | null>): { state: FleetState | null; history: History; problem: Problem | null } {
  const path = withQuery('/v1/fleet/events', parameters);
  const [state, setState] = useState<FleetState | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const history = useRef<{ path: string } & History>({ path, totals: [], waiting: new Map() });
  if (history.current.path !== path) history.current = { path, totals: [], waiting: new Map() };
  useEvents(path, (event) => {
    if (event.kind === PROBLEM) {
      const { status, code, detail, remedy } = event.data as ProblemData;
      setProblem(new Problem(status, code, detail, remedy));
      return;
    }
    if (event.kind !== 'fleet') return;
    const next = event.data as FleetState;
    const { totals, waiting } = history.current;
    totals.push(totalsOf(next.workers));
    if (totals.length > HISTORY) totals.shift();
    for (const worker of next.workers) {
      const values = waiting.get(worker.worker) ?? [];
      values.push(worker.waiting ?? 0);
      if (values.length > HISTORY) values.shift();
      waiting.set(worker.worker, values);
    }
    setProblem(null);
    setState(next);
  });
  return { state, history: history.current, problem };
}

// "gpu3:8000" of a worker's URL: what tells workers apart.
export function shortName(url: string): string {
  return url.replace(/^[a-z+]+:\/\//, '').replace(/\/$/, '');
}

// What names a fleet: its section in profd.conf, else its router.
export function fleetKey(fleet: Fleet): string {
  return fleet.fleet ?? fleet.router ?? '';
}

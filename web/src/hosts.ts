// SPDX-License-Identifier: Apache-2.0
// Answers about traces of several hosts: profd answers for one host at a time and names the traces that are left, which are
// asked for next. A host that does not answer costs its traces alone, and is named.

import { Problem, send } from './api';

export interface MissingHost {
  host: string;
  reason: string;
  remedy?: string;
}

export interface MissingTrace {
  trace: string;
  reason: string;
}

interface OfOneHost {
  left?: string[]; // of other hosts, and those without columns
  missing?: MissingTrace[];
  missing_hosts?: MissingHost[];
}

// What answers do without.
export interface Absent {
  hosts: MissingHost[];
  traces: MissingTrace[];
}

export const NOTHING_ABSENT: Absent = { hosts: [], traces: [] };

// Requests, each answered by another host.
const HOSTS_MAX = 64;

// Each host once, in the order in which they were named.
export function joinAbsent(...all: (Absent | null | undefined)[]): Absent {
  const hosts = new Map<string, MissingHost>();
  const traces = new Map<string, MissingTrace>();
  for (const each of all) {
    for (const host of each?.hosts ?? []) if (!hosts.has(host.host)) hosts.set(host.host, host);
    for (const trace of each?.traces ?? []) traces.set(trace.trace, trace);
  }
  return { hosts: [...hosts.values()], traces: [...traces.values()] };
}

export function absentOf(answer: OfOneHost | null | undefined): Absent {
  return joinAbsent({ hosts: answer?.missing_hosts ?? [], traces: answer?.missing ?? [] });
}

// POSTs a body that names traces or a session, until all hosts were asked. Throws where none answered.
export async function askAllHosts<T extends OfOneHost>(
  path: string,
  of: { session: string } | { traces: string[] },
  more: object,
  signal?: AbortSignal,
): Promise<{ answers: T[]; absent: Absent }> {
  const answers: T[] = [];
  let absent = NOTHING_ABSENT;
  let failed: Problem | null = null;
  let asked: { session: string } | { traces: string[] } = of;
  for (let i = 0; i < HOSTS_MAX; i++) {
    let left: string[];
    try {
      const answer = await send<T>('POST', path, { ...asked, ...more }, signal);
      answers.push(answer);
      absent = joinAbsent(absent, absentOf(answer));
      left = answer.left ?? [];
    } catch (error) {
      if (!(error instanceof Problem) || !error.remote?.left) throw error;
      failed = error;
      absent = joinAbsent(absent, { hosts: [{ host: error.remote.host, reason: error.detail, remedy: error.remedy }], traces: [] });
      left = error.remote.left;
    }
    // Those without columns are left for ever.
    if (left.length === 0 || ('traces' in asked && left.length >= asked.traces.length)) break;
    asked = { traces: left };
  }
  if (answers.length === 0 && failed) throw failed;
  return { answers, absent };
}

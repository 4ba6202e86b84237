// SPDX-License-Identifier: Apache-2.0
// The requests of benchmark runs, and figures of them over time. Pure but for loadRequests().

import { get } from '../api';
import { quantile, roundUp, sorted } from '../figures';

// A row of GET /v1/runs/{run}/requests. Times `*_ns` without a duration in their name are after the start of the run.
export interface RunRequest {
  index: number;
  prompt: number;
  target: string;
  cold: boolean;
  intended_ns: number;
  sent_ns?: number | null;
  first_ns?: number | null;
  last_ns?: number | null;
  end_ns?: number | null;
  ttft_ns?: number | null;
  tpot_ns?: number | null;
  e2e_ns?: number | null;
  lateness_ns?: number | null;
  input_tokens?: number | null;
  output_tokens?: number | null;
  outcome: 'success' | 'incomplete' | 'error';
  status?: number | null;
  error?: string | null;
  gaps_us?: number[] | null;
}

const PAGE = 10_000;
// More would fill the tab; the table of CSV has all.
export const REQUESTS_MAX = 200_000;

export async function loadRequests(run: string, signal?: AbortSignal): Promise<{ requests: RunRequest[]; more: boolean }> {
  const requests: RunRequest[] = [];
  let after = -1;
  for (;;) {
    const page = await get<{ requests: RunRequest[]; next?: number }>(`/v1/runs/${encodeURIComponent(run)}/requests?limit=${PAGE}&after=${after}`, signal);
    requests.push(...page.requests);
    if (page.next === undefined || page.next === null || page.next <= after) return { requests, more: false };
    if (requests.length >= REQUESTS_MAX) return { requests, more: true };
    after = page.next;
  }
}

export type Latency = 'ttft' | 'tpot' | 'itl' | 'e2e';

export const LATENCIES: [Latency, string, string][] = [
  ['ttft', 'TTFT', 'time to first token'],
  ['itl', 'ITL', 'inter-token latency'],
  ['tpot', 'TPOT', 'time per output token after the first'],
  ['e2e', 'E2E', 'from sending to the last token'],
];

// Values of a latency, sorted. As in the figures of a run, only requests that succeeded count, and no cold ones.
export function latencies(requests: RunRequest[], which: Latency): Float64Array {
  const counted = requests.filter((request) => request.outcome === 'success' && !request.cold);
  if (which === 'itl') {
    const gaps: number[] = [];
    for (const request of counted) for (const us of request.gaps_us ?? []) gaps.push(us * 1000);
    return sorted(gaps);
  }
  return sorted(counted.map((request) => request[`${which}_ns`]));
}

export interface OverTime {
  at: number[]; // begin of each interval, ns
  requests: number[]; // finished, a second
  tokens: number[]; // put out, a second
  inFlight: number[]; // at most
  ttftP50: (number | null)[]; // of the requests sent in it
  ttftP99: (number | null)[];
  e2eP50: (number | null)[];
  e2eP99: (number | null)[];
}

const INTERVALS = 120;

// The run in equal intervals of a round length, about as many as asked for.
export function overTime(requests: RunRequest[], intervals = INTERVALS): OverTime {
  const end = requests.reduce((most, request) => Math.max(most, request.end_ns ?? request.last_ns ?? request.sent_ns ?? 0), 0);
  const width = roundUp(Math.max(1e3, end / intervals));
  const n = Math.max(1, Math.ceil((end + 1) / width));
  const zeros = () => new Array<number>(n).fill(0);
  const result: OverTime = {
    at: Array.from({ length: n }, (_, i) => i * width),
    requests: zeros(),
    tokens: zeros(),
    inFlight: zeros(),
    ttftP50: [],
    ttftP99: [],
    e2eP50: [],
    e2eP99: [],
  };
  const seconds = width / 1e9;
  const binOf = (ns: number) => Math.max(0, Math.min(n - 1, Math.floor(ns / width)));
  const ttft: number[][] = Array.from({ length: n }, () => []);
  const e2e: number[][] = Array.from({ length: n }, () => []);
  const edges: [number, number][] = [];
  for (const request of requests) {
    if (typeof request.sent_ns !== 'number') continue;
    const bin = binOf(request.sent_ns);
    edges.push([request.sent_ns, 1]);
    if (typeof request.end_ns === 'number') edges.push([request.end_ns, -1]);
    if (request.outcome !== 'success') continue;
    if (typeof request.ttft_ns === 'number') ttft[bin]!.push(request.ttft_ns);
    if (typeof request.e2e_ns === 'number') e2e[bin]!.push(request.e2e_ns);
    if (typeof request.end_ns === 'number') result.requests[binOf(request.end_ns)]! += 1 / seconds;
    // Tokens arrive one after the other: each counts when it came.
    let at = request.first_ns;
    if (typeof at === 'number') {
      result.tokens[binOf(at)]! += 1 / seconds;
      for (const us of request.gaps_us ?? []) {
        at += us * 1000;
        result.tokens[binOf(at)]! += 1 / seconds;
      }
    }
  }
  edges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0;
  let bin = 0;
  for (const [at, change] of edges) {
    for (const next = binOf(at); bin < next; ) result.inFlight[++bin] = now;
    now += change;
    result.inFlight[bin] = Math.max(result.inFlight[bin]!, now);
  }
  for (let i = 0; i < n; i++) {
    const [first, whole] = [sorted(ttft[i]!), sorted(e2e[i]!)];
    result.ttftP50.push(quantile(first, 0.5));
    result.ttftP99.push(quantile(first, 0.99));
    result.e2eP50.push(quantile(whole, 0.5));
    result.e2eP99.push(quantile(whole, 0.99));
  }
  return result;
}

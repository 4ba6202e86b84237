// SPDX-License-Identifier: Apache-2.0
// What pictures of the page show where profd's own answers change with time and machine: a fleet, its sessions, and a sweep
// of benchmark runs, in the form of profd's answers (proto/openapi.yaml). Always the same.

const MS = 1e6;
const MIN = 60e9;
export const NOW = Date.UTC(2026, 10, 20, 14, 5) * MS; // ns
const ROUTER = 'http://10.0.0.1:30000';
const MODEL = 'deepseek-ai/DeepSeek-V3.1';
const WORKERS = Array.from({ length: 8 }, (_, i) => ({
  worker: `http://gpu${(i >> 1) + 1}:${30000 + (i & 1)}`,
  host: `gpu${(i >> 1) + 1}`,
  engine: 'sglang',
  version: '0.5.5',
  role: i < 4 ? 'prefill' : 'decode',
  model: MODEL,
}));
const LATE = 5; // of WORKERS: its requests wait
const GONE = 3; // does not answer

// Numbers that look like measured ones.
function randomOf(seed) {
  return () => (seed = (seed * 48271) % 2147483647) / 2147483647;
}

// -- The fleet --------------------------------------------------------------------------------------------------------------

function fleetAt(step, random) {
  const workers = WORKERS.map((worker, i) => {
    if (i === GONE) return { ...worker, fleet: 'prod', state: 'down', detail: 'connection refused', remedy: 'Start the server, or remove it from the router.' };
    const isLate = i === LATE;
    const running = Math.round(24 + 5 * Math.sin(step / 9 + i) + 3 * random());
    return {
      ...worker,
      fleet: 'prod',
      state: 'ok',
      running,
      waiting: isLate ? Math.max(0, Math.round(0.9 * (step - 26))) : 0,
      kv_use: Math.min(1, (isLate ? 0.62 + step / 170 : 0.48 + 0.05 * i) + 0.02 * random()),
      ttft_p50_ns: (isLate ? 240 + 9 * Math.max(0, step - 26) : 130 + 10 * i + 12 * random()) * MS,
      tokens_per_s: i < 4 ? 18 + 4 * random() : 41 * running + 60 * random(),
    };
  });
  const { waiting } = workers[LATE];
  const odd = [
    { worker: WORKERS[GONE].worker, kind: 'down', what: 'does not answer: connection refused', since_at: NOW - 3 * MIN - 20e9 },
    { worker: WORKERS[LATE].worker, kind: 'waiting-grows', what: `waiting requests grow, from 2 to ${waiting}`, since_at: NOW - MIN - 4e9 },
  ];
  return { at: NOW, fleets: [{ fleet: 'prod', router: ROUTER, dialect: 'sglang', state: 'ok' }], workers, odd };
}

// Events of /v1/fleet/events, as many as the sparklines of the page show.
export function fleetEvents() {
  const random = randomOf(7);
  return Array.from({ length: 60 }, (_, step) => `id: ${step}\nevent: fleet\ndata: ${JSON.stringify(fleetAt(step, random))}\n\n`).join('');
}

// -- Sessions -----------------------------------------------------------------------------------------------------------------

function session(number, minutesAgo, of) {
  const requested = NOW - minutesAgo * MIN;
  const targets = of.targets ?? 8;
  const traces = of.traces ?? 8;
  return {
    session: `s${number}`,
    state: 'complete',
    router: ROUTER,
    dialect: 'sglang',
    fleet: 'prod',
    options: { duration_ns: 5e9 },
    labels: {},
    requested_at: requested,
    requested_by: 'alice',
    recording_at: requested + 12 * MS,
    finished_at: requested + 11e9,
    pinned: false,
    ...of,
    targets: undefined,
    traces: undefined,
    counts: { targets, complete: of.complete ?? targets, traces, bytes: traces * 118_400, disk_bytes: traces * 122_880 },
  };
}

const STARTS = [0, 0.41, 0.87, 1.36]; // ms after the first one
const ANSWERS = [9.2, 8.1, 11.4, 9.9];
// The session whose traces are real ones: two ranks of each decode worker.
export function recordedSession(traces) {
  const of = session(41, 4, { targets: 4, skew_ns: 1.36 * MS, labels: { experiment: 'ep8' }, pinned: true });
  const targets = WORKERS.slice(4).map((worker, i) => ({
    target: i + 1,
    ...worker,
    state: 'complete',
    ranks_expected: 2,
    stop_pending: false,
    start_sent_at: of.recording_at + STARTS[i] * MS,
    start_answered_at: of.recording_at + (STARTS[i] + ANSWERS[i]) * MS,
    traces: traces.slice(2 * i, 2 * i + 2),
    bytes: 2 * 118_400,
  }));
  return { ...of, targets };
}

export function sessions(traces) {
  const { targets, ...recorded } = recordedSession(traces);
  const steps = { options: { steps: 10 } };
  return [
    session(42, 0.05, { state: 'recording', complete: 0, traces: 0, finished_at: undefined, skew_ns: 1.1 * MS, requested_by: 'bob' }),
    recorded,
    session(40, 22, { state: 'failed', complete: 0, traces: 0, skew_ns: undefined, reason: 'all workers are busy' }),
    session(39, 47, { skew_ns: 2.2 * MS, traces: 64, ...steps }),
    session(38, 63, { state: 'partial', complete: 7, traces: 56, skew_ns: 1.9 * MS, ...steps }),
    session(37, 190, { targets: 4, traces: 32, skew_ns: 0.7 * MS, labels: { experiment: 'mtp' } }),
    session(36, 204, { targets: 4, traces: 32, skew_ns: 0.8 * MS, labels: { experiment: 'baseline' }, pinned: true }),
    session(35, 1290, { targets: 0, traces: 4, fleet: undefined, router: undefined, name: 'torchrec-sst4', options: {}, skew_ns: undefined }),
    session(34, 1302, { targets: 1, traces: 8, skew_ns: undefined, labels: { purpose: 'nightly' }, ...steps }),
    session(33, 2742, { targets: 1, traces: 8, skew_ns: undefined, labels: { purpose: 'nightly' }, ...steps }),
    session(32, 2790, { state: 'cancelled', complete: 0, traces: 0, skew_ns: undefined }),
    session(31, 4182, { targets: 1, traces: 8, skew_ns: undefined, labels: { purpose: 'nightly' }, ...steps }),
  ];
}

// Fields of real traces that come from this machine, or from nowhere: files have no worker.
export function placed(trace) {
  const number = Number(trace.trace.slice(1));
  const worker = trace.session && WORKERS[4 + ((trace.ranks?.rank ?? 0) >> 1)];
  const recorded = NOW - (worker ? 4 : 2000 - 3 * number) * MIN;
  return { ...trace, recorded_at: recorded, collected_at: recorded + 9e9, ...(worker ? { worker: worker.worker, host: worker.host, pinned: true, origin: undefined } : {}) };
}

export const usage = { traces: 13, bytes: 41.3 * 2 ** 30, max_use: 200 * 2 ** 30, keep_free: 2 ** 32, free: 900 * 2 ** 30 };

// -- Benchmark runs -------------------------------------------------------------------------------------------------------------

const OSL = 128;
const REQUESTS = 320;

function percentile(sorted, q) {
  const at = q * (sorted.length - 1);
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(sorted.length - 1, low + 1)] - sorted[low]) * (at - low);
}

function figuresOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const mean = sorted.reduce((sum, value) => sum + value, 0) / sorted.length;
  return { mean, p50: percentile(sorted, 0.5), p90: percentile(sorted, 0.9), p99: percentile(sorted, 0.99), min: sorted[0], max: sorted.at(-1), count: sorted.length };
}

// Requests of a closed loop: each of `concurrency` users sends its next one when it has the answer.
export function requestsOf(number, concurrency) {
  const random = randomOf(number);
  const users = new Array(concurrency).fill(0);
  return Array.from({ length: REQUESTS }, (_, index) => {
    const user = users.indexOf(Math.min(...users));
    const sent = users[user] + 20_000 * random();
    const slow = random() > 0.97 ? 3 : 1;
    const ttft = slow * (62 + 3.1 * concurrency + 40 * random() ** 2) * MS;
    const gaps = Array.from({ length: OSL - 1 }, () => Math.round((7.4 + 0.16 * concurrency) * 1000 * (0.9 + 0.25 * random())));
    const tokens = gaps.reduce((sum, us) => sum + us * 1000, 0);
    users[user] = sent + ttft + tokens;
    return {
      run: number, index, prompt: index, target: ROUTER, cold: index === 0, outcome: 'success', status: 200, input_tokens: 1024, output_tokens: OSL,
      intended_ns: sent - 20_000, sent_ns: sent, first_ns: sent + ttft, last_ns: users[user], end_ns: users[user],
      ttft_ns: ttft, e2e_ns: ttft + tokens, tpot_ns: tokens / (OSL - 1), lateness_ns: 20_000 + 9000 * random(), gaps_us: gaps,
    };
  });
}

function runOf(number, concurrency) {
  const requests = requestsOf(number, concurrency);
  const warm = requests.slice(1);
  const ms = (member) => figuresOf(warm.map((request) => request[member] / MS));
  const seconds = Math.max(...requests.map((request) => request.end_ns)) / 1e9;
  const perSecond = (n) => n / seconds;
  const requested = NOW - (90 - 2 * number) * MIN;
  return {
    run: number, state: 'complete', router: ROUTER, fleet: 'prod', model: MODEL, labels: {}, requested_at: requested, requested_by: 'alice', started_at: requested + 2e9,
    ended_at: requested + 2e9 + seconds * 1e9, duration_s: seconds, requests: { success: REQUESTS, incomplete: 0, error: 0 }, goodput: null, peak_concurrency: concurrency,
    workload: { isl: 1024, osl: OSL, requests: REQUESTS, concurrency },
    metrics: {
      ttft_ms: ms('ttft_ns'), tpot_ms: ms('tpot_ns'), e2e_ms: ms('e2e_ns'), send_lateness_ms: ms('lateness_ns'),
      itl_ms: figuresOf(warm.flatMap((request) => request.gaps_us.map((us) => us / 1000))),
    },
    throughput: {
      requests_per_s: perSecond(REQUESTS), output_tokens_per_s: perSecond(REQUESTS * OSL), total_tokens_per_s: perSecond(REQUESTS * (1024 + OSL)),
      output_tokens_per_s_per_user: perSecond(REQUESTS * OSL) / concurrency,
    },
  };
}

export const RUN = 20; // the one that is shown
const CONCURRENCY = { 17: 1, 18: 4, 19: 8, 20: 16, 21: 32, 22: 64, 23: 128 };
export const concurrencyOf = (number) => CONCURRENCY[number];
export const runs = () => Object.entries(CONCURRENCY).map(([number, concurrency]) => runOf(Number(number), concurrency)).reverse();

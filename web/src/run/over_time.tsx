// SPDX-License-Identifier: Apache-2.0
// A run over its time: latency of each request, rates, requests in flight, and the steps of the trace that was recorded
// meanwhile, all under one cursor.

import { useMemo } from 'preact/hooks';
import { get, send, withQuery } from '../api';
import { AsTable } from '../components/as_table';
import { type Mark, Plot } from '../components/plot';
import type { Column } from '../components/table';
import { useLoad } from '../load';
import { loadReports, number, rowsNamed } from '../reports';
import { address, navigate } from '../router';
import type { Run, Trace } from '../types';
import { count, duration, durationTicks, moment, numberTicks, percent, percentTicks, rate } from '../units';
import { type OverTime, overTime, type RunRequest } from './requests';

const E2E = '#4f8ff7';
const TTFT = '#f0a13a';
const GPU_INTERVALS = 300;

const time = (ns: number) => moment(ns, 1e7);

interface Recorded {
  trace: string;
  offset: number; // ns from the start of the run to the first slice
  span: number;
  steps: { at: number; ns: number; index: number }[];
  busy: { at: number; share: number }[];
}

// A trace of the session that was recorded during the run, on the clock of the run.
async function recorded(run: Run, signal: AbortSignal): Promise<Recorded | null> {
  const { traces } = await get<{ traces: Trace[] }>(withQuery('/v1/traces', { session: `s${run.session}`, limit: 200 }), signal);
  const usable = traces.filter((trace) => trace.columns && trace.slices && trace.first_event_at && trace.span_ns);
  usable.sort((a, b) => (b.slices ?? 0) - (a.slices ?? 0));
  const trace = usable[0];
  if (!trace) return null;
  const span = trace.span_ns!;
  const offset = trace.first_event_at! - run.started_at!;
  const width = Math.max(1e6, Math.ceil(span / GPU_INTERVALS));
  const [reports, busy] = await Promise.all([
    loadReports([trace.trace], ['steps'], 0, signal),
    trace.gpu_slices
      ? send<{ rows: number[][] }>(
          'POST',
          `/v1/traces/${trace.trace}/query`,
          { sql: `select (ts - first) / ${width} as i, sum(dur) from slice, (select min(ts) as first from slice) where category in ('kernel', 'gpu_memcpy', 'gpu_memset') group by 1 order by 1` },
          signal,
        )
      : { rows: [] },
  ]);
  return {
    trace: trace.trace,
    offset,
    span,
    steps: rowsNamed(reports, 'steps')
      .filter((row) => typeof row['dur_ns'] === 'number')
      .map((row) => ({ at: offset + number(row, 'start_ns'), ns: number(row, 'dur_ns'), index: number(row, 'index') })),
    busy: busy.rows.map(([i, ns]) => ({ at: offset + i! * width, share: Math.min(1, ns! / width) })),
  };
}

interface Interval {
  at: number;
  i: number;
}

function intervalColumns(over: OverTime): Column<Interval>[] {
  return [
    { id: 'at', title: 'From', width: '90px', cell: (row) => time(row.at) },
    { id: 'flight', title: 'In flight', numeric: true, cell: (row) => count(over.inFlight[row.i]) },
    { id: 'requests', title: 'Requests/s', numeric: true, cell: (row) => rate(over.requests[row.i]!) },
    { id: 'tokens', title: 'Tokens/s', numeric: true, cell: (row) => rate(over.tokens[row.i]!) },
    { id: 'ttft', title: 'TTFT p50', numeric: true, cell: (row) => duration(over.ttftP50[row.i]) },
    { id: 'e2e', title: 'E2E p50', numeric: true, cell: (row) => duration(over.e2eP50[row.i]) },
    { id: 'e2e99', title: 'E2E p99', numeric: true, cell: (row) => duration(over.e2eP99[row.i]) },
  ];
}

export function OverTimePlots({ run, requests }: { run: Run; requests: RunRequest[] }) {
  const sync = `run-${run.run}`;
  const over = useMemo(() => overTime(requests), [requests]);
  const all: [number, number] = [0, requests.reduce((most, request) => Math.max(most, request.end_ns ?? 0), 1)];
  const trace = useLoad(run.session && run.started_at ? `${run.run} ${run.session}` : null, (signal) => recorded(run, signal));
  const marks = useMemo((): Mark[] => {
    const found = trace.data;
    if (!found) return [];
    return [
      { x: found.offset, label: 'recording begins', color: '--muted' },
      { x: found.offset + found.span, label: 'recording ends', color: '--muted' },
    ];
  }, [trace.data]);
  const points = useMemo(() => {
    const sent = requests.filter((request) => typeof request.sent_ns === 'number').sort((a, b) => a.sent_ns! - b.sent_ns!);
    return {
      x: sent.map((request) => request.sent_ns!),
      series: [
        { label: 'E2E', color: E2E, values: sent.map((request) => request.e2e_ns ?? null), kind: 'points' as const },
        { label: 'TTFT', color: TTFT, values: sent.map((request) => request.ttft_ns ?? null), kind: 'points' as const },
      ],
    };
  }, [requests]);
  const rates = useMemo(() => [{ label: 'Output tokens/s', color: '--accent', values: over.tokens, kind: 'steps' as const }], [over]);
  const flight = useMemo(
    () => [
      { label: 'Requests in flight', color: '#2fb3a3', values: over.inFlight, kind: 'steps' as const },
      { label: 'Requests finished/s', color: '#a678f0', values: over.requests, kind: 'steps' as const, text: rate },
    ],
    [over],
  );
  const steps = useMemo(() => trace.data && { x: trace.data.steps.map((step) => step.at), series: [{ label: 'Step', color: '#6fbf5b', values: trace.data.steps.map((step) => step.ns), kind: 'points' as const }] }, [trace.data]);
  const busy = useMemo(() => trace.data && { x: trace.data.busy.map((one) => one.at), series: [{ label: 'GPU busy', color: '#6fbf5b', values: trace.data.busy.map((one) => one.share), kind: 'area' as const }] }, [trace.data]);
  const shown = trace.data;
  const open = (at: number) => {
    if (!shown) return;
    const from = Math.max(0, Math.round(at - shown.offset));
    navigate(`/traces/${shown.trace}/timeline`, { from, to: from + Math.round(Math.max(1e6, shown.span / 50)) });
  };
  return (
    <>
      <Plot label="Latency over time" x={points.x} series={points.series} marks={marks} xTitle="Sent" xText={time} xTicks={durationTicks} xRange={all} yText={duration} yTicks={durationTicks} sync={sync} height={190} />
      <Plot label="Output tokens per second over time" x={over.at} series={rates} marks={marks} xTitle="Time" xText={time} xTicks={durationTicks} xRange={all} yText={rate} yTicks={numberTicks} yTitle="tokens/s" sync={sync} height={130} />
      <Plot label="Requests in flight and finished over time" x={over.at} series={flight} marks={marks} xTitle="Time" xText={time} xTicks={durationTicks} xRange={all} yText={rate} yTicks={numberTicks} yTitle="requests" sync={sync} height={130} />
      {shown && (
        <p class="facts-line">
          <span>
            Recorded meanwhile: <a href={`#/traces/${shown.trace}`}>{shown.trace}</a> of session <a href={`#/sessions/s${run.session}`}>s{run.session}</a>
          </span>
          <span>
            {time(shown.offset)} to {time(shown.offset + shown.span)} of the run
          </span>
          <span>
            <a href={address(`/traces/${shown.trace}/timeline`, {})}>Timeline</a>
          </span>
        </p>
      )}
      {steps && steps.x.length > 0 && (
        <Plot label="Steps of the recorded trace" x={steps.x} series={steps.series} xTitle="Time" xText={time} xTicks={durationTicks} xRange={all} yText={duration} yTicks={durationTicks} sync={sync} height={130} onPick={(index) => open(steps.x[index]!)} />
      )}
      {busy && busy.x.length > 0 && (
        <Plot label="GPU activity of the recorded trace" x={busy.x} series={busy.series} xTitle="Time" xText={time} xTicks={durationTicks} xRange={all} yText={(y) => percent(y)} yTicks={percentTicks} yMax={1} sync={sync} height={110} onPick={(index) => open(busy.x[index]!)} />
      )}
      <AsTable label="The run over time" columns={intervalColumns(over)} rows={over.at.map((at, i) => ({ at, i }))} />
    </>
  );
}

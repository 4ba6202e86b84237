// SPDX-License-Identifier: Apache-2.0
// Two benchmark runs, or groups of them, compared: each figure with its interval, and latencies over one another.

import { useMemo } from 'preact/hooks';
import { send } from '../api';
import { ProblemBox } from '../components/problem';
import { type Column, Table } from '../components/table';
import { useLoad } from '../load';
import { useLocalRows } from '../rows';
import { DistributionPanel } from '../run/distribution';
import { loadRequests, type RunRequest } from '../run/requests';
import { count, percent } from '../units';
import { Diverging, Result } from './diverging';
import { bodyOf, type Side } from './sides';
import { AFTER, BEFORE } from './traces';

interface Figure {
  figure?: string;
  a: number | null;
  b: number | null;
  difference: number | null;
  percent: number | null;
  ci95: [number, number] | null;
  percent_ci95: [number, number] | null;
  result: string | null;
  runs_needed: number | null;
}

interface Metric extends Figure {
  metric: string;
  figures?: Figure[];
}

interface RunComparison {
  latency?: Metric[];
  throughput?: Metric[];
  requests?: Metric[];
  workload?: { member: string; a: unknown; b: unknown }[];
}

interface Line {
  group: string;
  name: string;
  of: Figure;
  tested: boolean;
}

// Names and units as `profctl compare` prints them: "ttft.p99 ms".
function linesOf(answer: RunComparison): Line[] {
  const lines: Line[] = [];
  for (const [group, metrics] of [['latency', answer.latency], ['throughput', answer.throughput], ['requests', answer.requests]] as const) {
    for (const metric of metrics ?? []) {
      if (metric.figures) for (const of of metric.figures) lines.push({ group, name: `${metric.metric.replace(/_ms$/, '')}.${of.figure}`, of: { ...of, result: of.result ?? (of.figure === 'mean' ? metric.result : null) }, tested: of.figure === 'mean' });
      else lines.push({ group, name: metric.metric, of: metric, tested: true });
    }
  }
  return lines;
}

const isMore = (line: Line) => line.group !== 'latency';

function value(line: Line, n: number | null): string {
  if (n === null) return '';
  const digits = Math.abs(n) >= 1000 || (Number.isInteger(n) && line.group === 'requests') ? count(n) : n.toPrecision(3);
  return line.group === 'latency' ? `${digits}\u00a0ms` : digits;
}

function Figures({ lines }: { lines: Line[] }) {
  const certain = (line: Line) => {
    const interval = line.of.percent_ci95;
    return interval !== null && (interval[0] > 0 || interval[1] < 0);
  };
  const most = Math.max(2, ...lines.filter((line) => line.tested).map((line) => Math.min(100, Math.abs(line.of.percent ?? 0))));
  const worse = (line: Line) => (isMore(line) ? (line.of.difference ?? 0) < 0 : (line.of.difference ?? 0) > 0);
  const columns: Column<Line>[] = [
    { id: 'name', title: 'Figure', cell: (line) => line.name },
    { id: 'a', title: 'Before', width: '100px', numeric: true, rare: true, cell: (line) => value(line, line.of.a) },
    { id: 'b', title: 'After', width: '100px', numeric: true, rare: true, cell: (line) => value(line, line.of.b) },
    { id: 'change', title: 'Change', width: '76px', numeric: true, cell: (line) => (line.of.percent === null ? '' : percent(line.of.percent / 100)) },
    {
      id: 'bar',
      title: '− 0 +',
      rare: true,
      width: 'clamp(84px, 15vw, 190px)',
      cell: (line) =>
        line.of.percent !== null && (
          <Diverging value={line.of.percent} most={most} low={line.of.percent_ci95?.[0] ?? null} high={line.of.percent_ci95?.[1] ?? null} certain={certain(line)} costs={!isMore(line)} />
        ),
    },
    {
      id: 'interval',
      title: '95 % interval',
      width: '150px',
      numeric: true,
      rare: true,
      cell: (line) => (line.of.percent_ci95 ? `${percent(line.of.percent_ci95[0] / 100)} to ${percent(line.of.percent_ci95[1] / 100)}` : ''),
    },
    { id: 'result', title: 'Result', width: 'clamp(134px, 12vw, 152px)', cell: (line) => line.of.result && <Result result={line.of.result} worse={worse(line)} /> },
    { id: 'needed', title: 'Runs needed', width: '112px', numeric: true, rare: true, help: 'on each side, to show a change of this size', cell: (line) => count(line.of.runs_needed) },
  ];
  return <Table label="Figures before and after" columns={columns} rows={useLocalRows(lines)} rowKey={(line) => line.group + line.name} keys={false} />;
}

async function requestsOf(side: Side, signal: AbortSignal): Promise<RunRequest[]> {
  return (await Promise.all(side.ids.map((id) => loadRequests(id, signal)))).flatMap((one) => one.requests);
}

export function ComparedRuns({ a, b, names }: { a: Side; b: Side; names: [string, string] }) {
  const key = `${a.ids} ${b.ids}`;
  const answer = useLoad(key, (signal) => send<RunComparison>('POST', '/v1/compare', { a: bodyOf(a), b: bodyOf(b) }, signal));
  const requests = useLoad(key, (signal) => Promise.all([requestsOf(a, signal), requestsOf(b, signal)]));
  const lines = useMemo(() => (answer.data ? linesOf(answer.data) : []), [answer.data]);
  const runs = useMemo(
    () =>
      requests.data && [
        { label: `before, ${names[0]}`, color: BEFORE, requests: requests.data[0] },
        { label: `after, ${names[1]}`, color: AFTER, requests: requests.data[1] },
      ],
    [requests.data, names[0], names[1]],
  );
  const workload = answer.data?.workload ?? [];
  return (
    <>
      {workload.length > 0 && (
        <div class="problem" role="note">
          <strong>The workloads differ</strong>
          <p>{workload.map((one) => `${one.member}: ${JSON.stringify(one.a)} and ${JSON.stringify(one.b)}`).join('; ')}</p>
        </div>
      )}
      <section class="panel" aria-label="Figures" aria-busy={answer.loading}>
        <h2>Figures</h2>
        {answer.problem ? <ProblemBox problem={answer.problem} onRetry={answer.reload} /> : answer.data ? <Figures lines={lines} /> : <p class="hint computing">Computing…</p>}
        <p class="hint">Intervals are of 95 %. Not distinguishable: the interval includes no change.</p>
      </section>
      <section class="panel" aria-label="Latency">
        <h2>Latency</h2>
        {requests.problem ? <ProblemBox problem={requests.problem} onRetry={requests.reload} /> : runs ? <DistributionPanel runs={runs} /> : <p class="hint computing">Loading…</p>}
      </section>
    </>
  );
}

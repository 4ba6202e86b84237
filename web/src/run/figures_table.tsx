// SPDX-License-Identifier: Apache-2.0
// The figures of a run, or of several repeated runs: then the mean over runs with its 95 % interval.

import { type Column, Table } from '../components/table';
import { useLocalRows } from '../rows';
import type { Run } from '../types';
import { count, duration, percent } from '../units';
import { figure, meanOf } from './sweep';

const METRICS: [string, string, string][] = [
  ['ttft_ms', 'TTFT', 'time to first token'],
  ['itl_ms', 'ITL', 'inter-token latency'],
  ['tpot_ms', 'TPOT', 'time per output token after the first'],
  ['e2e_ms', 'E2E', 'from sending to the last token'],
  ['send_lateness_ms', 'Send lateness', 'how late requests were sent'],
];
const FIGURES = ['mean', 'p50', 'p90', 'p99', 'max'];

type Metric = (typeof METRICS)[0];

const ms = (value: number | null | undefined) => (value === null || value === undefined ? '' : duration(value * 1e6));

function cell(runs: Run[], metric: string, name: string) {
  const values = runs.map((run) => figure(run, metric, name)).filter((value): value is number => value !== null);
  if (runs.length === 1) {
    const interval = (runs[0]!.metrics?.[metric] as { ci95?: Record<string, [number, number]> } | undefined)?.ci95?.[name];
    return <span title={interval ? `95 % interval ${ms(interval[0])} to ${ms(interval[1])}` : undefined}>{ms(values[0])}</span>;
  }
  const found = meanOf(values);
  return (
    found && (
      <>
        {ms(found.mean)} {found.half !== null && <small>±{ms(found.half)}</small>}
      </>
    )
  );
}

export function FiguresTable({ runs }: { runs: Run[] }) {
  const several = runs.length > 1;
  const columns: Column<Metric>[] = [
    { id: 'metric', title: several ? 'Mean over runs, ± 95 % interval' : 'Latency', cell: ([, title, meaning]) => <span title={meaning}>{title}</span> },
    ...FIGURES.map((name) => ({
      id: name,
      title: name,
      width: several ? '158px' : 'clamp(68px, 9vw, 96px)',
      numeric: true,
      rare: name === 'p90' || name === 'max',
      cell: ([metric]: Metric) => cell(runs, metric, name),
    })),
    { id: 'count', title: 'Values', width: '84px', numeric: true, rare: true, cell: ([metric]) => count(runs.reduce((sum, run) => sum + (figure(run, metric, 'count') ?? 0), 0)) },
  ];
  const shown = METRICS.filter(([metric]) => runs.some((run) => figure(run, metric, 'mean') !== null));
  return <Table label="Latencies" columns={columns} rows={useLocalRows(shown)} rowKey={([metric]) => metric} keys={false} empty="No request succeeded." />;
}

const THROUGHPUT: [string, string][] = [
  ['requests_per_s', 'requests/s'],
  ['output_tokens_per_s', 'output tokens/s'],
  ['total_tokens_per_s', 'tokens/s in total'],
  ['output_tokens_per_s_per_user', 'tokens/s per user'],
];

const rate = (value: number) => (value < 100 ? value.toPrecision(3) : count(value));

export function ThroughputLine({ runs }: { runs: Run[] }) {
  const sum = (name: 'success' | 'incomplete' | 'error') => runs.reduce((total, run) => total + (run.requests?.[name] ?? 0), 0);
  const goodput = runs.length === 1 ? runs[0]!.goodput : null;
  return (
    <p class="facts-line">
      {THROUGHPUT.map(([name, title]) => {
        const found = meanOf(runs.map((run) => run.throughput?.[name]).filter((value): value is number => typeof value === 'number'));
        return (
          found && (
            <span key={name}>
              <b>{rate(found.mean)}</b> {found.half !== null && `±${rate(found.half)} `}
              {title}
            </span>
          )
        );
      })}
      <span>
        <b>{count(sum('success'))}</b> succeeded
      </span>
      {sum('incomplete') > 0 && (
        <span class="costs">
          <b>{count(sum('incomplete'))}</b> incomplete
        </span>
      )}
      {sum('error') > 0 && (
        <span class="costs">
          <b>{count(sum('error'))}</b> failed
        </span>
      )}
      {goodput && typeof goodput['share'] === 'number' && (
        <span>
          goodput <b>{percent(goodput['share'])}</b> ({rate(goodput['requests_per_s'] ?? 0)} requests/s)
        </span>
      )}
    </p>
  );
}

// SPDX-License-Identifier: Apache-2.0
// Throughput against latency of runs that differ in their load, with the knee: above it, latency grows faster than throughput.

import { useMemo } from 'preact/hooks';
import { Plot } from '../components/plot';
import { type Column, Table } from '../components/table';
import { navigate } from '../router';
import { useLocalRows } from '../rows';
import type { Run } from '../types';
import { duration, durationTicks, rate } from '../units';
import { type Swept, sweepOf } from './sweep';

const ms = (value: number | null) => (value === null ? '' : duration(value * 1e6));

export function SweepPanel({ run, runs }: { run: Run; runs: Run[] }) {
  const sweep = useMemo(() => sweepOf(runs), [runs]);
  // A plot's x has to grow; throughput may fall again beyond the knee.
  const order = useMemo(() => [...sweep.points].sort((a, b) => a.throughput - b.throughput), [sweep]);
  const x = useMemo(() => order.map((point) => point.throughput), [order]);
  const series = useMemo(
    () => [
      { label: 'E2E mean', color: '#4f8ff7', values: order.map((point) => point.latency * 1e6) },
      { label: 'E2E p99', color: '#a678f0', values: order.map((point) => (point.e2eP99 === null ? null : point.e2eP99 * 1e6)) },
      { label: 'TTFT p50', color: '#f0a13a', values: order.map((point) => (point.ttftP50 === null ? null : point.ttftP50 * 1e6)) },
    ],
    [order],
  );
  const marks = useMemo(
    () => order.map((point) => ({ x: point.throughput, label: `${sweep.knee !== null && sweep.points[sweep.knee] === point ? 'knee: ' : ''}${point.load}`, color: sweep.knee !== null && sweep.points[sweep.knee] === point ? '--red' : '--muted' })),
    [order, sweep],
  );
  const columns: Column<Swept>[] = [
    { id: 'load', title: sweep.member === 'rate' ? 'Rate (requests/s)' : 'Concurrency', cell: (row) => `${row.load}${sweep.knee !== null && sweep.points[sweep.knee] === row ? ' (knee)' : ''}` },
    { id: 'throughput', title: 'Tokens/s', numeric: true, cell: (row) => rate(row.throughput) },
    { id: 'ttft', title: 'TTFT p50', numeric: true, cell: (row) => ms(row.ttftP50) },
    { id: 'latency', title: 'E2E mean', numeric: true, cell: (row) => ms(row.latency) },
    { id: 'p99', title: 'E2E p99', numeric: true, cell: (row) => ms(row.e2eP99) },
    { id: 'runs', title: 'Runs', cell: (row) => row.runs.map((number) => `r${number}`).join(', ') },
  ];
  const found = sweep.knee === null ? null : sweep.points[sweep.knee]!;
  return (
    <>
      <p class="hint">
        {found
          ? `Knee at ${sweep.member} ${found.load}: above it, latency grows faster than throughput.`
          : `No knee in this range: a higher ${sweep.member} may still increase throughput.`}
      </p>
      <Plot
        label="Latency against throughput"
        x={x}
        series={series}
        marks={marks}
        xTitle="Output tokens/s"
        xText={rate}
        yText={duration}
        yTicks={durationTicks}
        xRange={[0, 1.06 * Math.max(1e-9, ...x)]}
        height={220}
        onPick={(index) => navigate(`/runs/r${order[index]!.runs[0]}`)}
      />
      <div class="after-plot">
        <Table
          label="Runs of the sweep"
          columns={columns}
          rows={useLocalRows(sweep.points)}
          rowKey={(row) => String(row.load)}
          onOpen={(row) => navigate(`/runs/${row.runs.map((number) => `r${number}`).join(',')}`)}
          marked={(row) => row.runs.includes(run.run)}
          keys={false}
        />
      </div>
    </>
  );
}

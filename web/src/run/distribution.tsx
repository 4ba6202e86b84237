// SPDX-License-Identifier: Apache-2.0
// How a latency is distributed: cumulative, and as a histogram.

import { useMemo, useState } from 'preact/hooks';
import { AsTable } from '../components/as_table';
import { Plot } from '../components/plot';
import type { Column } from '../components/table';
import { Distributions } from '../compare/distributions';
import { histogram } from '../figures';
import { count, duration, durationTicks, moment, numberTicks } from '../units';
import { LATENCIES, latencies, type Latency, type RunRequest } from './requests';

interface Bin {
  from: number;
  to: number;
  count: number;
}

const BIN_COLUMNS: Column<Bin>[] = [
  { id: 'from', title: 'From', cell: (row) => moment(row.from, 1000) },
  { id: 'to', title: 'To', cell: (row) => moment(row.to, 1000) },
  { id: 'count', title: 'Count', numeric: true, cell: (row) => count(row.count) },
];

export function Choice<T extends string>({ label, options, value, onChoose }: { label: string; options: [T, string, string?][]; value: T; onChoose: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([name, title, help]) => (
        <button type="button" key={name} aria-pressed={value === name} title={help} onClick={() => onChoose(name)}>
          {title}
        </button>
      ))}
    </div>
  );
}

export function DistributionPanel({ runs }: { runs: { label: string; color: string; requests: RunRequest[] }[] }) {
  const [which, setWhich] = useState<Latency>('ttft');
  const of = useMemo(() => runs.map(({ label, color, requests }) => ({ label, color, values: latencies(requests, which) })), [runs, which]);
  const bins = useMemo(() => histogram(of.at(-1)!.values), [of]);
  const series = useMemo(() => [{ label: of.at(-1)!.label, color: of.at(-1)!.color, values: bins.counts, kind: 'bars' as const, text: count }], [bins, of]);
  const rows = bins.counts.map((n, i) => ({ from: bins.edges[i]!, to: bins.edges[i + 1]!, count: n }));
  const [, title, meaning] = LATENCIES.find(([name]) => name === which)!;
  return (
    <>
      <Choice label="Latency" options={LATENCIES} value={which} onChoose={setWhich} />
      <p class="hint">{title}: {meaning}. Requests that succeeded, without the first one to each target.</p>
      {of.every((one) => one.values.length === 0) ? (
        <p class="hint">No request has this latency.</p>
      ) : (
        <div class="two-plots">
          <div>
            <Distributions title={`${title}: share of requests up to a latency`} of={of} noun={which === 'itl' ? 'gap' : 'request'} />
          </div>
          {runs.length === 1 && (
            <div>
              <h3>{title}: histogram</h3>
              <Plot label={`${title}: histogram`} x={bins.edges.slice(0, -1)} series={series} xTitle="From" xText={duration} xTicks={durationTicks} yText={count} yTicks={numberTicks} yTitle="requests" xRange={[bins.edges[0]!, bins.edges.at(-1)!]} height={232} />
              <AsTable label={`${title}: histogram`} columns={BIN_COLUMNS} rows={rows} />
            </div>
          )}
        </div>
      )}
    </>
  );
}

// SPDX-License-Identifier: Apache-2.0
// Two distributions over one another: both curves, with p50 and p99 of each, and the same figures as a table.

import { useMemo } from 'preact/hooks';
import { AsTable } from '../components/as_table';
import { Plot } from '../components/plot';
import type { Column } from '../components/table';
import { estimate, mean, overlaid } from '../figures';
import { duration, durationTicks, percent, percentTicks, plural } from '../units';

export interface Distribution {
  label: string;
  color: string;
  values: Float64Array; // sorted, ns
}

const QUANTILES = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1];

function quantileName(q: number): string {
  return q === 0 ? 'minimum' : q === 1 ? 'maximum' : `p${100 * q}`;
}

export function Distributions({ title, of, noun }: { title: string; of: Distribution[]; noun: string }) {
  const both = useMemo(() => overlaid(of.map((one) => one.values)), [of]);
  const series = useMemo(() => of.map((one, i) => ({ label: one.label, color: one.color, values: both.y[i]!, kind: 'steps' as const })), [of, both]);
  const marks = useMemo(
    () =>
      of.flatMap((one) => {
        const marked = [0.5, 0.99].map((q) => ({ q, x: estimate(one.values, q) }));
        return marked.filter((mark) => mark.x !== null).map((mark) => ({ x: mark.x!, label: `${one.label.split(',')[0]} p${100 * mark.q}`, color: one.color }));
      }),
    [of],
  );
  const rows = useMemo(
    () => [...QUANTILES.map((q) => ({ name: quantileName(q), values: of.map((one) => estimate(one.values, q)) })), { name: 'mean', values: of.map((one) => mean(one.values)) }],
    [of],
  );
  const columns: Column<(typeof rows)[0]>[] = [
    { id: 'name', title: 'Figure', cell: (row) => row.name },
    ...of.map((one, i) => ({ id: one.label, title: one.label, numeric: true, cell: (row: (typeof rows)[0]) => duration(row.values[i]) })),
  ];
  if (of.length === 2) {
    columns.push({
      id: 'change',
      title: 'Change',
      numeric: true,
      cell: (row) => (row.values[0] && row.values[1] !== null && row.values[1] !== undefined ? percent(row.values[1] / row.values[0] - 1) : ''),
    });
  }
  if (of.every((one) => one.values.length === 0)) return null;
  return (
    <>
      <h3>{title}</h3>
      <p class="facts-line">
        {of.map((one) => (
          <span key={one.label}>
            <i class="swatch" style={{ background: one.color.startsWith('--') ? `var(${one.color})` : one.color }} /> {one.label}: {plural(one.values.length, noun)}
            {[0.5, 0.99].map((q) => {
              const value = estimate(one.values, q);
              return (
                value !== null && (
                  <span key={q}>
                    , {quantileName(q)} <b>{duration(value)}</b>
                  </span>
                )
              );
            })}
          </span>
        ))}
      </p>
      <Plot
        label={`${title}: cumulative distribution`}
        x={both.x}
        series={series}
        marks={marks}
        xTitle="Up to"
        xText={duration}
        xTicks={durationTicks}
        yText={(y) => percent(y)}
        yTicks={percentTicks}
        yMax={1.02}
        height={210}
      />
      <AsTable label={title} columns={columns} rows={rows} />
    </>
  );
}

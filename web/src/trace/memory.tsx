// SPDX-License-Identifier: Apache-2.0
// Allocated and reserved memory over time, for each device. The largest values of each of a few hundred intervals are asked
// for by SQL, so that a trace of any length is one small answer.

import { useMemo } from 'preact/hooks';
import { send } from '../api';
import { AsTable } from '../components/as_table';
import { Plot } from '../components/plot';
import type { Column } from '../components/table';
import { useLoad } from '../load';
import { number, type Row, text } from '../reports';
import { address, navigate } from '../router';
import { durationTicks, moment, size } from '../units';
import { memoryByDevice, memorySql, type Sample } from './memory_data';

const SAMPLE_COLUMNS: Column<Sample>[] = [
  { id: 'at', title: 'From', cell: (row) => moment(row.at, 1000) },
  { id: 'allocated', title: 'Allocated at most', numeric: true, cell: (row) => size(row.allocated) },
  { id: 'reserved', title: 'Reserved at most', numeric: true, cell: (row) => size(row.reserved) },
];

function Device({ name, samples, trace }: { name: string; samples: Sample[]; trace: string }) {
  const x = useMemo(() => samples.map((sample) => sample.at), [samples]);
  const series = useMemo(
    () => [
      { label: 'Reserved', color: '--muted', values: samples.map((sample) => sample.reserved), kind: 'steps' as const, dash: true },
      { label: 'Allocated', color: '--accent', values: samples.map((sample) => sample.allocated), kind: 'area' as const },
    ],
    [samples],
  );
  const width = samples.length > 1 ? samples[1]!.at - samples[0]!.at : 1e6;
  return (
    <>
      <h3>{name}</h3>
      <Plot
        label={`Memory of ${name} over time`}
        x={x}
        series={series}
        xTitle="Time"
        xText={(at) => moment(at, 1e5)}
        xTicks={durationTicks}
        yText={size}
        binary
        height={170}
        sync={`memory-${trace}`}
        onPick={(index) => navigate(`/traces/${trace}/timeline`, { from: Math.max(0, x[index]! - 5 * width), to: x[index]! + 5 * width })}
      />
      <AsTable label={`Memory of ${name}`} columns={SAMPLE_COLUMNS} rows={samples} />
    </>
  );
}

export function Memory({ rows, trace, span }: { rows: Row[]; trace: string; span: number }) {
  const samples = useLoad(rows.length > 0 && span > 0 ? `${trace} ${span}` : null, (signal) =>
    send<{ rows: unknown[][] }>('POST', `/v1/traces/${trace}/query`, { sql: memorySql(span), limit: 20_000 }, signal).then((answer) =>
      memoryByDevice(answer.rows, rows.map((row) => text(row, 'device'))),
    ),
  );
  const gpus = [...(samples.data ?? [])].filter(([name]) => name !== 'cpu');
  return (
    <>
      {rows
        .filter((row) => text(row, 'device') !== 'cpu' || rows.length === 1)
        .map((row) => (
          <p class="facts-line" key={text(row, 'device')}>
            <span>
              {text(row, 'device')} peak <b>{size(number(row, 'peak_bytes'))}</b>
            </span>
            <span>
              <a href={address(`/traces/${trace}/timeline`, { from: Math.max(0, number(row, 'peak_at_ns') - 1e6), to: number(row, 'peak_at_ns') + 1e6 })}>
                at {moment(number(row, 'peak_at_ns'), 1000)}
              </a>
            </span>
            <span>
              reserved <b>{size(number(row, 'peak_reserved_bytes'))}</b>
            </span>
            {number(row, 'leaking_bytes') > 0 && (
              <span class="costs">
                may leak <b>{size(number(row, 'leaking_bytes'))}</b>
              </span>
            )}
            {text(row, 'holder') && (
              <span>
                most held by <b>{text(row, 'holder')}</b> {text(row, 'holder_frame') && `in ${text(row, 'holder_frame')} `}
                <b>{size(number(row, 'holder_bytes'))}</b>
              </span>
            )}
          </p>
        ))}
      {(gpus.length > 0 ? gpus : [...(samples.data ?? [])]).map(([name, list]) => (
        <Device key={name} name={name} samples={list} trace={trace} />
      ))}
    </>
  );
}

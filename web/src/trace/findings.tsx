// SPDX-License-Identifier: Apache-2.0
// Findings, the most expensive first: what it costs, where it is, how it was found and what to do about it.

import { useState } from 'preact/hooks';
import { send } from '../api';
import { useLoad } from '../load';
import { number, type Row, text, windowAround } from '../reports';
import { address } from '../router';
import { duration, percent } from '../units';
import { findingSpan, slicesSql } from './finding_places';

const SLICES_MAX = 40;

// Numbers of slices by the index of their finding.
export function useFindingSlices(rows: Row[], trace: string): Map<number, number> {
  const spans = rows.slice(0, SLICES_MAX).map(findingSpan);
  const known = spans.flatMap((span, i) => (span ? [{ span, i }] : []));
  const found = useLoad(known.length > 0 ? `${trace} ${known.map(({ span, i }) => `${i}:${span.from}-${span.to}`).join()}` : null, (signal) =>
    send<{ rows: [number, number | null][] }>('POST', `/v1/traces/${trace}/query`, { sql: slicesSql(known.map(({ span }) => span)) }, signal),
  );
  const slices = new Map<number, number>();
  for (const [n, slice] of found.data?.rows ?? []) if (slice !== null && known[n]) slices.set(known[n].i, slice);
  return slices;
}

const PARTS: [string, string][] = [
  ['compute_ns', 'computing'],
  ['communication_ns', 'communication'],
  ['copy_ns', 'copies'],
  ['idle_ns', 'idle'],
];

function Method({ row }: { row: Row }) {
  const parts = PARTS.map(([name, title]) => [title, number(row, name)] as const).filter(([, ns]) => ns > 0);
  return (
    <dl class="method">
      <dt>Evidence</dt>
      <dd>{text(row, 'evidence')}</dd>
      <dt>Method</dt>
      <dd>
        <b class="certainty">{text(row, 'confidence')}</b> {text(row, 'ground')}
      </dd>
      {parts.length > 0 && (
        <>
          <dt>Kind of time</dt>
          <dd>{parts.map(([title, ns]) => `${title} ${duration(ns)}`).join(', ')}</dd>
        </>
      )}
      {text(row, 'advice') && (
        <>
          <dt>Remedy</dt>
          <dd>{text(row, 'advice')}</dd>
        </>
      )}
      <dt>Report</dt>
      <dd>
        <code>profctl analyze --report {text(row, 'report')}</code>
      </dd>
    </dl>
  );
}

export function Finding({ row, trace, place, slice }: { row: Row; trace: string; place: number; slice: number | undefined }) {
  const [open, setOpen] = useState(false);
  const cost = row['cost_ns'];
  const share = number(row, 'share');
  const span = findingSpan(row);
  const around = span && windowAround(span);
  const has = typeof cost === 'number';
  const id = `finding-${trace}-${text(row, 'rule')}-${place}`;
  return (
    <li class={`finding ${text(row, 'severity')}`}>
      <div class="finding-text">
        <strong>{text(row, 'what')}</strong>
        {text(row, 'where') && <p class="hint">{text(row, 'where')}</p>}
        <div class="finding-actions">
          {around && (
            <a class="button" href={address(`/traces/${trace}/timeline`, { from: around.from, to: around.to, slice })}>
              Show in timeline
            </a>
          )}
          <button type="button" class={span ? 'quiet' : undefined} aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
            Method
          </button>
        </div>
        <div id={id}>{open && <Method row={row} />}</div>
      </div>
      {has && (
        <div class="finding-cost" aria-label={`cost ${duration(cost)}, ${percent(share)} of the time`}>
          <b>{duration(cost)}</b>
          <span>{percent(share)}</span>
          <i aria-hidden="true">
            <span style={{ width: `${Math.max(1, Math.min(100, 100 * share))}%` }} />
          </i>
        </div>
      )}
    </li>
  );
}

// Those with a cost first; statements without one follow. `slices`: what to select in the timeline, by the index of a row.
export function Findings({ rows, trace, slices }: { rows: Row[]; trace: string; slices: Map<number, number> }) {
  const all = rows.map((row, place) => ({ row, place, costs: typeof row['cost_ns'] === 'number' }));
  const items = (costs: boolean) =>
    all.filter((one) => one.costs === costs).map(({ row, place }) => <Finding key={place} row={row} trace={trace} place={place} slice={slices.get(place)} />);
  const [costs, statements] = [items(true), items(false)];
  return (
    <>
      {costs.length > 0 ? <ol class="findings">{costs}</ol> : <p class="hint">Nothing costs enough time to be a finding.</p>}
      {statements.length > 0 && (
        <ul class="findings statements" aria-label="Statements without a cost">
          {statements}
        </ul>
      )}
    </>
  );
}

// SPDX-License-Identifier: Apache-2.0
// Findings, the most expensive first: what it costs, where it is, how it was found and what to do about it.

import { useState } from 'preact/hooks';
import { number, type Row, text } from '../reports';
import { duration, percent } from '../units';
import { placeOf, reportAddress, timelineAddress } from './finding_places';

const PARTS: [string, string][] = [
  ['compute_ns', 'computing'],
  ['communication_ns', 'communication'],
  ['copy_ns', 'copies'],
  ['idle_ns', 'idle'],
];

// `trace`: of the rank where it is, null if that is not known.
export function Method({ row, trace, session }: { row: Row; trace: string | null; session?: string }) {
  const parts = PARTS.map(([name, title]) => [title, number(row, name)] as const).filter(([, ns]) => ns > 0);
  const report = reportAddress(row, trace, session);
  return (
    <dl class="method">
      {text(row, 'evidence') && (
        <>
          <dt>Evidence</dt>
          <dd>{text(row, 'evidence')}</dd>
        </>
      )}
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
      {report && (
        <>
          <dt>Report</dt>
          <dd>
            <a href={report}>{text(row, 'report')}</a>
          </dd>
        </>
      )}
    </dl>
  );
}

function Finding({ row, trace, at }: { row: Row; trace: string; at: number }) {
  const [open, setOpen] = useState(false);
  const cost = row['cost_ns'];
  const share = number(row, 'share');
  const place = placeOf(row);
  const has = typeof cost === 'number';
  const id = `finding-${trace}-${text(row, 'rule')}-${at}`;
  return (
    <li class={`finding ${text(row, 'severity')}`}>
      <div class="finding-text">
        <strong>{text(row, 'what')}</strong>
        {text(row, 'where') && <p class="hint">{text(row, 'where')}</p>}
        <div class="finding-actions">
          {place && (
            <a class="button" href={timelineAddress(trace, place)}>
              Show in timeline
            </a>
          )}
          <button type="button" class="quiet" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
            Method
          </button>
        </div>
        <div id={id}>{open && <Method row={row} trace={trace} />}</div>
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

// Those with a cost first; statements without one follow.
export function Findings({ rows, trace }: { rows: Row[]; trace: string }) {
  const all = rows.map((row, at) => ({ row, at, costs: typeof row['cost_ns'] === 'number' }));
  const items = (costs: boolean) => all.filter((one) => one.costs === costs).map(({ row, at }) => <Finding key={at} row={row} trace={trace} at={at} />);
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

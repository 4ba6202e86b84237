// SPDX-License-Identifier: Apache-2.0
// Findings, the most expensive first: what it costs, where it is, how it was found and what to do about it.

import { useState } from 'preact/hooks';
import { number, type Row, spanIn, text, windowAround } from '../reports';
import { address } from '../router';
import { duration, percent } from '../units';

// The window that a finding names: its sentence about the place first.
export function findingSpan(row: Row) {
  for (const name of ['where', 'what', 'evidence']) {
    const span = spanIn(text(row, name));
    if (span) return windowAround(span);
  }
  return null;
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

export function Finding({ row, trace, place }: { row: Row; trace: string; place?: number }) {
  const [open, setOpen] = useState(false);
  const cost = row['cost_ns'];
  const share = number(row, 'share');
  const span = findingSpan(row);
  const has = typeof cost === 'number';
  const id = `finding-${trace}-${text(row, 'rule')}-${place ?? ''}`;
  return (
    <li class={`finding ${text(row, 'severity')}`}>
      <div class="finding-text">
        <strong>{text(row, 'what')}</strong>
        {text(row, 'where') && <p class="hint">{text(row, 'where')}</p>}
        <div class="finding-actions">
          {span && (
            <a class="button" href={address(`/traces/${trace}/timeline`, { from: span.from, to: span.to })}>
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

// Those with a cost first; statements without one fold away below them.
export function Findings({ rows, trace }: { rows: Row[]; trace: string }) {
  const costs = rows.filter((row) => typeof row['cost_ns'] === 'number');
  const statements = rows.filter((row) => typeof row['cost_ns'] !== 'number');
  return (
    <>
      {costs.length > 0 ? (
        <ol class="findings">
          {costs.map((row, i) => (
            <Finding key={text(row, 'rule') + i} row={row} trace={trace} place={i} />
          ))}
        </ol>
      ) : (
        <p class="hint">Nothing costs enough time to be a finding.</p>
      )}
      {statements.length > 0 && (
        <ul class="findings statements" aria-label="Statements without a cost">
          {statements.map((row, i) => (
            <Finding key={text(row, 'rule') + i} row={row} trace={trace} place={costs.length + i} />
          ))}
        </ul>
      )}
    </>
  );
}

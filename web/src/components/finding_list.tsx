// SPDX-License-Identifier: Apache-2.0
// Findings of a session: sentence, cost, and how to see and change it.

import { number, text } from '../reports';
import type { Finding } from '../session_data';
import { placeOf, timelineAddress, traceOf } from '../trace/finding_places';
import { Method } from '../trace/findings';
import { duration, percent, plural } from '../units';

// "gpu3:8000 and 7 others", where there are several engine instances.
function where(instances: string[]): string {
  const others = instances.length - 1;
  return others < 1 ? '' : `${instances[0]} and ${plural(others, 'other')}`;
}

interface FindingListProps {
  session: string;
  findings: Finding[];
  rankOf: (trace: string) => number | undefined;
}

export function FindingList({ session, findings, rankOf }: FindingListProps) {
  return (
    <ol class="found">
      {findings.map(({ row, instances, traces }, i) => {
        const place = placeOf(row);
        const trace = traceOf(row, traces, rankOf);
        return (
          <li key={text(row, 'rule') + i}>
            <div>
              <strong>{text(row, 'what')}</strong>
              <small> {where(instances)}</small>
            </div>
            <div class="cost">
              {row['cost_ns'] !== null && <b class="costs">{duration(number(row, 'cost_ns'))}</b>} <small>{row['share'] !== null && percent(number(row, 'share'))}</small>
            </div>
            {place && trace && (
              <a class="button" href={timelineAddress(trace, place)}>
                Show in timeline
              </a>
            )}
            <details>
              <summary>Method and remedy</summary>
              {text(row, 'where') && <p>{text(row, 'where')}</p>}
              {instances.length > 1 && <p>Instances: {instances.join(', ')}</p>}
              <Method row={row} trace={trace ?? traces[0] ?? null} session={session} />
            </details>
          </li>
        );
      })}
    </ol>
  );
}

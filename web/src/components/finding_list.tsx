// SPDX-License-Identifier: Apache-2.0
// Findings of a session: sentence, cost, and how to see and change it.

import type { Finding } from '../session_data';
import { duration, percent, plural } from '../units';

// "gpu3:8000 and 7 others", where there are several engine instances.
function where(instances: string[]): string {
  const others = instances.length - 1;
  return others < 1 ? '' : `${instances[0]} and ${plural(others, 'other')}`;
}

export function FindingList({ findings }: { findings: Finding[] }) {
  return (
    <ol class="found">
      {findings.map((finding, i) => (
        <li key={finding.rule + i}>
          <div>
            <strong>{finding.what}</strong>
            <small> {where(finding.instances)}</small>
          </div>
          <div class="cost">
            {finding.cost_ns !== null && <b class="costs">{duration(finding.cost_ns)}</b>} <small>{percent(finding.share)}</small>
          </div>
          <details>
            <summary>Method and remedy</summary>
            {finding.where && <p>{finding.where}</p>}
            {finding.instances.length > 1 && <p>Instances: {finding.instances.join(', ')}</p>}
            <p>{finding.evidence}</p>
            {finding.advice && (
              <p>
                <b>Try:</b> {finding.advice}
              </p>
            )}
          </details>
        </li>
      ))}
    </ol>
  );
}

// SPDX-License-Identifier: Apache-2.0
// Hosts that did not answer, and traces that could not be read: what a view does without.

import type { Absent } from '../hosts';
import { plural } from '../units';

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith('.') ? '' : '.');
}

export function AbsentNote({ absent }: { absent: Absent | null | undefined }) {
  if (!absent || absent.hosts.length + absent.traces.length === 0) return null;
  return (
    <div class="absent" role="note" aria-label="Missing here">
      {absent.hosts.map((each) => (
        <p key={each.host}>
          <b>{each.host} did not answer:</b> its traces are missing here.{' '}
          <span class="hint">
            {sentence(each.reason)} {each.remedy}
          </span>
        </p>
      ))}
      {absent.traces.length > 0 && (
        <details>
          <summary>{plural(absent.traces.length, 'trace')} could not be read</summary>
          <ul>
            {absent.traces.map((each) => (
              <li key={each.trace}>
                {each.trace}: {each.reason}
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

// SPDX-License-Identifier: Apache-2.0
// An error with its remedy.

import type { Problem } from '../api';

export function ProblemBox({ problem, onRetry }: { problem: Problem | null | undefined; onRetry?: () => void }) {
  if (!problem) return null;
  return (
    <div class="problem" role="alert">
      <strong>{problem.detail}</strong>
      {problem.remedy && <p>{problem.remedy}</p>}
      {problem.remarks.length > 0 && (
        <ul>
          {problem.remarks.map((remark) => (
            <li key={(remark.worker ?? '') + remark.text}>
              {remark.worker && <code>{remark.worker}</code>} {remark.text} {remark.remedy}
            </li>
          ))}
        </ul>
      )}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

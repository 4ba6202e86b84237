// SPDX-License-Identifier: Apache-2.0
// An error with its remedy.

import type { Problem } from '../api';

// Programs and names of things keep their case.
const NAMED = /^(profd|profctl|nsys|torch|vllm|sglang)\b/;

// Errors of the API begin in lower case, as other programs continue a line with them; here they stand alone.
function sentence(text: string): string {
  return /^[a-z]+[ ,]/.test(text) && !NAMED.test(text) ? text[0]!.toUpperCase() + text.slice(1) : text;
}

export function ProblemBox({ problem, onRetry }: { problem: Problem | null | undefined; onRetry?: () => void }) {
  if (!problem) return null;
  return (
    <div class="problem" role="alert">
      <strong>{sentence(problem.detail)}</strong>
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

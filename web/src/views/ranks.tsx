// SPDX-License-Identifier: Apache-2.0
import type { ViewProps } from '../views';

export function Ranks({ parts }: ViewProps) {
  return <p class="empty">Not available in this version. {Object.values(parts).join(' ')}</p>;
}

// SPDX-License-Identifier: Apache-2.0
// Two traces of a comparison as timelines that move together.

import { LinkedTimelines } from '../timeline/linked';
import { usePlace } from '../router';

export function TwoTimelines() {
  const { query } = usePlace();
  const [a, b] = [query.get('a'), query.get('b')];
  if (!a || !b) return <p class="empty">Choose two traces in the comparison first.</p>;
  return <LinkedTimelines traces={[a, b]} />;
}

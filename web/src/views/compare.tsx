// SPDX-License-Identifier: Apache-2.0
// Compare two traces, sessions or groups of benchmark runs. Both sides are in the address.

import { useMemo } from 'preact/hooks';
import { Picker } from '../compare/picker';
import { ComparedRuns } from '../compare/runs';
import { comparable, sideOf } from '../compare/sides';
import { ComparedTraces } from '../compare/traces';
import { useKeys } from '../keys';
import { address, setParameters, usePlace } from '../router';
import './trace.css';
import './compare.css';

const NOUNS = { traces: '/traces/', session: '/sessions/', runs: '/runs/' };

export function Compare() {
  const { query } = usePlace();
  const words: [string, string] = [query.get('a') ?? '', query.get('b') ?? ''];
  const a = useMemo(() => sideOf(words[0]), [words[0]]);
  const b = useMemo(() => sideOf(words[1]), [words[1]]);
  const swap = () => setParameters({ a: words[1], b: words[0] }, true);
  useKeys('Compare', [{ keys: 'w', label: 'Swap both sides', run: swap }]);
  const fits = a && b && comparable(a, b);
  return (
    <article class="compare-view">
      <div class="head">
        <h1>Compare</h1>
        <Picker label="Before" value={words[0]} other={b?.kind} onPick={(picked) => setParameters({ a: picked }, true)} />
        <button type="button" class="quiet" onClick={swap} disabled={!a && !b} aria-label="Swap both sides" title="Swap (w)">
          ⇄
        </button>
        <Picker label="After" value={words[1]} other={a?.kind} onPick={(picked) => setParameters({ b: picked }, true)} />
        {fits && (
          <div class="actions">
            <a class="button" href={'#' + NOUNS[a.kind] + words[0]}>
              {words[0]}
            </a>
            <a class="button" href={'#' + NOUNS[b.kind] + words[1]}>
              {words[1]}
            </a>
            {a.kind === 'traces' && b.kind === 'traces' && (
              <a class="button" href={address('/compare/timelines', { a: a.ids[0], b: b.ids[0] })}>
                Both timelines
              </a>
            )}
          </div>
        )}
      </div>
      {!a || !b ? (
        <p class="empty">Choose two traces (t12), sessions (s7) or benchmark runs (r3, or several: r3,r4,r5).</p>
      ) : !fits ? (
        <div class="problem" role="alert">
          <strong>Benchmark runs can be compared with benchmark runs only.</strong>
        </div>
      ) : a.kind === 'runs' ? (
        <ComparedRuns key={words.join()} a={a} b={b} names={words} />
      ) : (
        <ComparedTraces key={words.join()} a={a} b={b} names={words} />
      )}
    </article>
  );
}

// SPDX-License-Identifier: Apache-2.0
// The flame graph of a trace: where the time of the host went, or which calls the GPU's time was launched from. Kind, window,
// zoom and search are in the address.

import { useMemo } from 'preact/hooks';
import { useGet, withQuery } from '../api';
import { useCommands } from '../commands';
import { Icicle } from '../components/icicle';
import { ProblemBox } from '../components/problem';
import { saveAs } from '../csv';
import { around, type AroundSide, briefName, type FlameAnswer, folded, treeOf } from '../icicle';
import { useKeys } from '../keys';
import { address, navigate, setParameters, usePlace } from '../router';
import { moment } from '../units';
import type { ViewProps } from '../views';
import './flame.css';

const KINDS: [string, string, string][] = [
  ['gpu', 'GPU by operator', 'as wide as the GPU time that operators and annotations launched'],
  ['stack', 'GPU by Python', 'as wide as the GPU time that operators and Python frames launched'],
  ['kernel', 'GPU by kernel', 'as wide as the GPU time of kinds and names of kernels'],
  ['host', 'Host', 'as wide as the time on the host'],
];

export function Flame({ parts }: ViewProps) {
  const id = parts['trace']!;
  const { query } = usePlace();
  const by = query.get('by') ?? 'gpu';
  const from = query.get('from');
  const to = query.get('to');
  const thread = query.get('thread');
  const { data, problem, loading, reload } = useGet<FlameAnswer>(withQuery(`/v1/traces/${encodeURIComponent(id)}/flame`, { by, from, to, thread }));
  const of = query.get('of');
  const side: AroundSide = query.get('side') === 'callees' ? 'callees' : 'callers';
  const shown = useMemo(() => data && (of === null ? data : around(data, of, side)), [data, of, side]);
  const tree = useMemo(() => (shown ? treeOf(shown) : null), [shown]);
  const wanted = Number(query.get('frame') ?? 0);
  const focus = tree && Number.isInteger(wanted) && wanted > 0 && wanted < tree.parent.length ? wanted : 0;
  const show = (kind: string) => setParameters({ by: kind, frame: null, of: null, side: null }, true);
  useKeys(`Flame graph of ${id}`, [
    { keys: 'b', label: 'GPU time or host time', run: () => show(by === 'host' ? 'gpu' : 'host') },
    { keys: 'l', label: 'Timeline', run: () => navigate(`/traces/${id}/timeline`, { from, to }) },
    { keys: 'u', label: 'The trace', run: () => navigate(`/traces/${id}`) },
  ]);
  const file = `${id}-${of === null ? by : side}`;
  const saveStacks = () => shown && saveAs(`${file}.folded`, folded(shown), 'text/plain');
  const savePicture = () => document.querySelector<HTMLCanvasElement>('canvas.icicle')?.toBlob((picture) => picture && saveAs(`${file}.png`, picture));
  useCommands([
    { title: 'Save the stacks of the flame graph as text', run: saveStacks },
    { title: 'Save the flame graph as PNG', run: savePicture },
  ]);
  return (
    <div class="flame-view" aria-busy={loading}>
      <div class="head">
        <h1>
          Flame graph <a href={`#/traces/${id}`}>{id}</a>
        </h1>
        <div class="choice" role="group" aria-label="Width of frames">
          {KINDS.map(([kind, title, help]) => (
            <button type="button" key={kind} aria-pressed={by === kind} title={help} onClick={() => show(kind)}>
              {title}
            </button>
          ))}
        </div>
        {from !== null && to !== null && (
          <span class="label">
            {moment(Number(from), 1000)} to {moment(Number(to), 1000)}{' '}
            <button type="button" class="link" aria-label="Show the complete trace" onClick={() => setParameters({ from: null, to: null, frame: null }, true)}>
              ×
            </button>
          </span>
        )}
        {of !== null && (
          <span class="label">
            {side} of {briefName(of)}{' '}
            <button type="button" class="link" aria-label={side === 'callers' ? 'Show callees' : 'Show callers'} title="The other side" onClick={() => setParameters({ side: side === 'callers' ? 'callees' : 'callers', frame: null }, true)}>
              ⇅
            </button>{' '}
            <button type="button" class="link" aria-label="Show all names" onClick={() => setParameters({ of: null, side: null, frame: null }, true)}>
              ×
            </button>
          </span>
        )}
        {thread !== null && (
          <span class="label">
            thread {thread}{' '}
            <button type="button" class="link" aria-label="Show all threads" onClick={() => setParameters({ thread: null, frame: null }, true)}>
              ×
            </button>
          </span>
        )}
        <div class="actions">
          {data && shown && (
            <>
              <button type="button" title="Save the stacks as text, for speedscope or flamegraph.pl" onClick={saveStacks}>
                Stacks
              </button>
              <button type="button" title="Save the picture as PNG" onClick={savePicture}>
                PNG
              </button>
            </>
          )}
          <a class="button" href={address(`/traces/${id}/timeline`, { from, to })}>
            Timeline
          </a>
          <a class="button" href={address('/compare', { a: id })}>
            Compare…
          </a>
        </div>
      </div>
      {problem ? (
        <ProblemBox problem={problem} onRetry={reload} />
      ) : !tree ? (
        <p class="empty computing">Computing…</p>
      ) : tree.parent.length < 2 ? (
        <p class="empty">{of !== null ? 'No frame has this name.' : by === 'host' ? 'The trace has no calls here.' : 'The trace has no GPU events here.'}</p>
      ) : (
        <Icicle
          tree={tree}
          unit={data!.unit}
          focus={focus}
          text={query.get('search') ?? ''}
          onFocus={(frame) => setParameters({ frame: frame || null }, frame !== focus)}
          onSearch={(search) => setParameters({ search })}
          onAround={(name, to) => setParameters({ of: name, side: to, frame: null }, true)}
        />
      )}
    </div>
  );
}

// SPDX-License-Identifier: Apache-2.0
// Two timelines below one another that move together: the same span of both, with the beginnings of their steps at one
// place. For comparisons.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, isAbort, type Problem } from '../api';
import { ProblemBox } from '../components/problem';
import { useKeys } from '../keys';
import type { Run } from './lanes';
import { commonSteps, TimelineLink } from './link';
import { type Pane, TimelinePane } from './pane';
import { SlicePanel } from './panel';
import { type SliceDetail, type Step, TimelineSource } from './source';
import { windowAround, windowAt } from './view';

interface Side {
  source: TimelineSource;
  steps: Step[];
  step: Step | null; // the first one that both have
}

interface Both {
  sides: [Side, Side];
  problem: Problem | null; // why there are no steps: the timelines begin where their traces do
}

// Their first picture begins with a step of both: the steps come before it.
async function openBoth(traces: [string, string], signal: AbortSignal): Promise<Both> {
  const [a, b] = (await Promise.all(traces.map((trace) => TimelineSource.open(trace, signal)))) as [TimelineSource, TimelineSource];
  let steps: [Step[], Step[]] = [[], []];
  let problem: Problem | null = null;
  try {
    steps = await Promise.all([a.steps(signal), b.steps(signal)]);
  } catch (error) {
    problem = asProblem(error);
    if (isAbort(error) || problem.status === 409) throw error;
  }
  const [stepA, stepB] = commonSteps(...steps);
  return { sides: [{ source: a, steps: steps[0], step: stepA }, { source: b, steps: steps[1], step: stepB }], problem };
}

export function LinkedTimelines({ traces }: { traces: [string, string] }) {
  const [both, setBoth] = useState<Both | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    setBoth(null);
    setProblem(null);
    openBoth(traces, control.signal).then(setBoth, (error: unknown) => {
      // Columns of one were made again in between.
      if (asProblem(error).status === 409) setTurn((old) => old + 1);
      else if (!isAbort(error)) setProblem(asProblem(error));
    });
    return () => control.abort();
  }, [traces.join(), turn]);
  if (!both) {
    return (
      <div class="linked">
        <h1 class="unseen">Two timelines</h1>
        <ProblemBox problem={problem} />
        {!problem && <p class="empty">Loading two timelines…</p>}
      </div>
    );
  }
  return <Linked key={traces.join()} {...both} />;
}

function Linked({ sides, problem: ofSteps }: Both) {
  const [link] = useState(() => new TimelineLink());
  const [isLinked, setLinked] = useState(true);
  const [selected, setSelected] = useState<{ side: number; slice: SliceDetail } | null>(null);
  const [problem, setProblem] = useState(ofSteps);
  const panes = useRef<(Pane | null)[]>([null, null]);
  const used = useRef(0); // the one that keys move

  const each = (run: (pane: Pane) => void) => {
    const pane = panes.current[used.current];
    if (pane) run(pane);
  };
  const select = (side: number, ask: Promise<SliceDetail>) => {
    ask.then(
      (slice) => {
        panes.current.forEach((pane, i) => pane?.picture.setSelected(i === side ? slice : null));
        panes.current[side]?.picture.reveal(slice);
        setSelected({ side, slice });
      },
      (error: unknown) => {
        if (asProblem(error).status !== 404) setProblem(asProblem(error));
      },
    );
  };
  const toggle = () => {
    // What lies below one another when they are linked again stays so.
    if (!isLinked) panes.current.forEach((pane) => pane && link.join(pane.picture, pane.picture.view.from));
    link.enabled = !isLinked;
    setLinked(!isLinked);
  };
  useKeys('Two timelines', [
    { keys: 'KeyW', label: 'Zoom in', run: () => each((pane) => pane.picture.zoomBy(1 / 1.5)) },
    { keys: 'KeyS', label: 'Zoom out', run: () => each((pane) => pane.picture.zoomBy(1.5)) },
    { keys: 'KeyA', label: 'Move left', run: () => each((pane) => pane.picture.panByPart(-0.2)) },
    { keys: 'KeyD', label: 'Move right', run: () => each((pane) => pane.picture.panByPart(0.2)) },
    { keys: '0', label: 'Show all', run: () => each((pane) => pane.picture.glideTo(windowAt(0, pane.picture.length, pane.picture.length))) },
    { keys: 'l', label: 'Link the timelines, or move them apart', run: toggle },
  ]);

  const ready = useCallback(
    (side: number) => (pane: Pane) => {
      panes.current[side] = pane;
      const leave = link.join(pane.picture, sides[side]!.step?.begin ?? 0);
      // Both begin with the first step of the upper one.
      const steps = sides.map((each) => each.step);
      if (steps[0] && steps[1]) {
        const mine = steps[side]!;
        const longest = Math.max(steps[0].end - steps[0].begin, steps[1].end - steps[1].begin);
        pane.picture.setView(windowAround(mine.begin, mine.begin + longest, pane.picture.length, 0.05));
      }
      return () => {
        leave();
        panes.current[side] = null;
      };
    },
    [],
  );
  const readies = useRef([ready(0), ready(1)]);

  return (
    <div class="linked">
      <h1 class="unseen">
        Timelines of {sides[0].source.trace} and {sides[1].source.trace}
      </h1>
      <p class="linked-bar">
        <button type="button" aria-pressed={isLinked} class="quiet" onClick={toggle} title="l">
          {isLinked ? 'Linked' : 'Link'}
        </button>
        <span class="muted">{isLinked ? 'Both show the same span. Unlink to move one of them alone.' : 'Each moves alone. Link them where they should lie below one another.'}</span>
      </p>
      <ProblemBox problem={problem} />
      {sides.map(({ source, steps }, side) => (
        <div class="linked-side" key={side} onPointerEnter={() => (used.current = side)} onFocusCapture={() => (used.current = side)}>
          <a class="linked-name" href={`#/traces/${source.trace}/timeline`}>
            {source.trace}
          </a>
          <TimelinePane
            source={source}
            steps={steps}
            label={`Timeline of ${source.trace}, the ${side === 0 ? 'first' : 'second'} of two`}
            events={{
              view: () => {
                const pane = panes.current[side];
                if (pane) link.moved(pane.picture);
              },
              pick: (run: Run | null) => {
                if (run) select(side, source.sliceAt(run.lane, (run.from + run.to) / 2, run.to - run.from + 2 ** run.level));
              },
              follow: (ref) => select(side, source.slice(ref.slice)),
              failed: (error) => setProblem(asProblem(error)),
            }}
            onReady={readies.current[side]!}
          />
        </div>
      ))}
      {selected && (
        <div class="timeline-below">
          <SlicePanel
            slice={selected.slice}
            onGo={(ref) => select(selected.side, sides[selected.side]!.source.slice(ref.slice))}
            onZoom={() => panes.current[selected.side]?.picture.reveal(selected.slice)}
            onSearch={(name) => {
              location.hash = `#/traces/${sides[selected.side]!.source.trace}/timeline?find=${encodeURIComponent(name)}`;
            }}
          />
        </div>
      )}
    </div>
  );
}

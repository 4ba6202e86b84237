// SPDX-License-Identifier: Apache-2.0
// The timeline of a trace: the pane, what is selected below it, search and keys. The address has window and selection.

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { asProblem, isAbort, Problem, useAction } from '../api';
import { useCommands } from '../commands';
import { ProblemBox } from '../components/problem';
import { type Binding, useKeys, useOwnKeys } from '../keys';
import { useMe } from '../me';
import { notify } from '../notice';
import { HANDOVER_MAX, openInPerfetto } from '../perfetto';
import { place, setParameters, usePlace } from '../router';
import { AreaTable } from '../timeline/area_table';
import { type InViewRow, InView, rowsInView } from '../timeline/in_view';
import type { Run } from '../timeline/lanes';
import { bandAt } from '../timeline/layout';
import { exactly, arrowsOf } from '../timeline/overlay';
import { type Pane, showAll, TimelinePane } from '../timeline/pane';
import { SlicePanel } from '../timeline/panel';
import type { Area } from '../timeline/picture';
import { useSearch } from '../timeline/search';
import { type SliceDetail, TimelineSource } from '../timeline/source';
import { windowAround, windowFrom } from '../timeline/view';
import type { SliceRef } from '../types';
import { count, duration, plural, slices } from '../units';
import type { ViewProps } from '../views';

const ADDRESS_MS = 250;
const IN_VIEW_MS = 400;
const ZOOM = 1.5;
const PAN = 0.2;

export function Timeline({ parts }: ViewProps) {
  const trace = parts['trace']!;
  const [source, setSource] = useState<TimelineSource | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    setProblem(null);
    TimelineSource.open(trace, control.signal).then(setSource, (error: unknown) => {
      if (!isAbort(error)) setProblem(asProblem(error));
    });
    return () => control.abort();
  }, [trace, turn]);
  const again = useCallback(() => setTurn((old) => old + 1), []);
  if (problem || !source || source.head.lanes === 0) {
    return (
      <div class="timeline">
        <div class="timeline-bar">
          <h1>Timeline {trace}</h1>
        </div>
        <ProblemBox problem={problem} onRetry={again} />
        {!problem && <p class="empty">{source ? 'The trace has no slices. Its counters and metadata are tables of SQL.' : 'Loading…'}</p>}
      </div>
    );
  }
  return <Shown key={source.head.sum} source={source} onStale={again} />;
}

function Shown({ source, onStale }: { source: TimelineSource; onStale: () => void }) {
  const { head, trace } = source;
  const { perfetto } = useMe();
  const pane = useRef<Pane | null>(null);
  const [selected, setSelected] = useState<SliceDetail | null>(null);
  const [area, setArea] = useState<Area | null>(null);
  const [measuring, setMeasuring] = useState(false);
  const [text, setText] = useState('');
  const [listed, setListed] = useState(false);
  const [rows, setRows] = useState<InViewRow[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const search = useSearch(source, text);
  const written = useRef('');
  const asked = useRef<AbortController | null>(null);
  const timers = useRef({ address: 0, rows: 0 });
  const picture = () => pane.current!.picture;

  const failed = useCallback(
    (error: unknown) => {
      const found = asProblem(error);
      // The columns were made again, with other numbers of lanes and names.
      if (found.status === 409) onStale();
      else if (!isAbort(error)) setProblem(found);
    },
    [onStale],
  );

  // -- Address --------------------------------------------------------------------------------------------------------

  const latestText = useRef(text);
  latestText.current = text;
  const latestSlice = useRef<SliceDetail | null>(null);
  latestSlice.current = selected;
  const writeAddress = () => {
    clearTimeout(timers.current.address);
    timers.current.address = setTimeout(() => {
      const { from, to } = picture().view;
      const isAll = from <= 0 && to >= picture().length;
      const span = to - from;
      // As many digits as the window needs.
      const digits = (at: number) => (span > 1000 ? at.toFixed(0) : at.toFixed(3).replace(/\.?0+$/, ''));
      setParameters({ from: isAll ? null : digits(from), to: isAll ? null : digits(to), slice: latestSlice.current?.slice ?? null, lane: null, at: null, find: latestText.current || null });
      written.current = place().query.toString();
    }, ADDRESS_MS);
  };
  useEffect(() => writeAddress(), [selected, text]);
  const readAddress = () => {
    const { query } = place();
    written.current = query.toString();
    const view = windowFrom(query.get('from'), query.get('to'), picture().length);
    if (view) picture().setView(view, true);
    const slice = query.get('slice');
    if (slice !== null && /^\d+$/.test(slice) && Number(slice) !== latestSlice.current?.slice) {
      select(() => source.slice(Number(slice), asked.current!.signal), !view);
    }
    const lane = query.get('lane');
    const at = query.get('at');
    if (lane !== null && at !== null) select(() => source.sliceAt(Number(lane), Number(at), 0, asked.current!.signal), true);
    const find = query.get('find');
    if (find) setText(find);
  };
  // Back, or a link to another window of this trace.
  const now = usePlace().query.toString();
  useEffect(() => {
    if (pane.current && now !== written.current && now !== '') readAddress();
  }, [now]);

  // -- Selection ------------------------------------------------------------------------------------------------------

  const select = (ask: () => Promise<SliceDetail>, reveal: boolean, isHit = false) => {
    asked.current?.abort();
    asked.current = new AbortController();
    setProblem(null);
    ask().then(
      (slice) => {
        setSelected(slice);
        setArea(null);
        picture().area = null;
        picture().setSelected(slice);
        pane.current!.overview.marked = slice;
        pane.current!.overview.invalidate();
        if (reveal) picture().reveal(slice, isHit);
      },
      (error: unknown) => {
        if (!isAbort(error) && asProblem(error).status !== 404) failed(error);
      },
    );
  };
  const go = (ref: SliceRef, isHit = false) => select(() => source.slice(ref.slice, asked.current!.signal), true, isHit);
  const pick = (run: Run | null) => {
    if (!run) return clear();
    const bucket = 2 ** run.level;
    select(() => source.sliceAt(run.lane, (run.from + run.to) / 2, Math.max(bucket, (run.to - run.from) / 2 + bucket), asked.current!.signal), false);
  };
  const clear = () => {
    asked.current?.abort();
    setSelected(null);
    setArea(null);
    picture().area = null;
    picture().setSelected(null);
    pane.current!.overview.marked = null;
    pane.current!.overview.invalidate();
  };
  const zoomToIt = () => {
    if (area) picture().glideTo(windowAround(area.from, area.to, picture().length, 0.03));
    else if (selected) picture().glideTo(windowAround(selected.begin, selected.dur < 0 ? picture().length : selected.begin + selected.dur, picture().length));
  };
  // To the neighbour in the lane, or from a parent to a child and back.
  const step = (direction: -1 | 1) => {
    const lanes = picture().lanes;
    if (!selected) {
      const first = lanes.visibleRuns(1)[0];
      if (first) pick(first.run);
      return;
    }
    const beside = direction < 0 ? selected.before : selected.after;
    if (beside) return go(beside);
    const end = selected.dur < 0 ? picture().length : selected.begin + selected.dur;
    const run = lanes.runBeside(selected.lane, direction < 0 ? selected.begin : end, direction);
    if (run) pick(run);
  };
  const climb = (direction: -1 | 1) => {
    if (!selected) return step(1);
    if (direction < 0) return selected.parents[0] ? go(selected.parents[0]) : undefined;
    const band = picture().layout.byLane(selected.lane + 1);
    if (!band?.track || band.track.track !== selected.track) return;
    const span = selected.dur < 0 ? picture().length : selected.dur;
    select(() => source.sliceAt(selected.lane + 1, selected.begin, span, asked.current!.signal), true);
  };
  const arrow = (isInto: boolean) => {
    if (!selected) return;
    const found = arrowsOf(selected).find((each) => (isInto ? each.to === selected : each.from === selected));
    if (found) go(found.other);
    else notify(isInto ? 'No arrow leads to this slice' : 'No arrow leads on from this slice');
  };
  const sameName = (direction: -1 | 1) => {
    const ref = direction < 0 ? selected?.same?.previous : selected?.same?.next;
    if (ref) go(ref);
    else if (selected) notify(direction < 0 ? 'This is the first one of its name' : 'This is the last one of its name');
  };
  const measure = () => {
    const on = !measuring;
    setMeasuring(on);
    const of = on && selected && selected.dur >= 0 ? { from: selected.begin, to: selected.begin + selected.dur } : null;
    picture().setMeasuring(on, of);
    notify(on ? (of ? `Measured: ${exactly(of.to - of.from)}. Click two edges to measure between them.` : 'Click two places to measure between them; edges snap.') : 'Measuring ended');
  };
  const toggleTrack = () => {
    const { layout } = picture();
    const hovered = picture().pointer ? bandAt(layout, picture().pointer!.y - picture().top, picture().scroll)?.band : null;
    const band = (selected && layout.byLane(selected.lane)) ?? hovered ?? layout.bands.find((each) => each.track?.kind === 'python') ?? layout.bands.find((each) => !each.open);
    if (band) pane.current!.toggle(band);
  };
  const nextHit = (direction: -1 | 1) => {
    const { view } = picture();
    const from = selected ?? { begin: view.from, slice: -1 };
    search.step(field.current?.value ?? '', from, direction).then((hit) => {
      if (hit) go(hit, true);
    }, failed);
  };
  const find = (name: string) => {
    setText(name);
    field.current?.focus();
  };

  useEffect(() => {
    if (!pane.current) return;
    picture().lanes.names.highlight(text.length > 1 ? text : '');
  }, [text]);
  useEffect(() => {
    if (!pane.current) return;
    pane.current.overview.hits = search.hits;
    pane.current.overview.invalidate();
  }, [search.hits]);

  // -- Perfetto -------------------------------------------------------------------------------------------------------

  const handOver = useAction(async (isWindow: boolean) => {
    const { from, to } = picture().view;
    await openInPerfetto({ perfetto, trace, title: isWindow ? `${trace}, part` : trace, window: isWindow ? { from, to } : undefined });
  });

  // -- Keys -----------------------------------------------------------------------------------------------------------

  const zoomKeys: Binding[] = [
    { keys: 'KeyW', label: 'Zoom in', run: () => picture().zoomBy(1 / ZOOM) },
    { keys: 'KeyS', label: 'Zoom out', run: () => picture().zoomBy(ZOOM) },
    { keys: 'KeyA', label: 'Move left', run: () => picture().panByPart(-PAN) },
    { keys: 'KeyD', label: 'Move right', run: () => picture().panByPart(PAN) },
    { keys: '0', label: 'Show all of the trace', run: () => showAll(pane.current!) },
    { keys: 'f', label: 'Zoom to what is selected', run: zoomToIt },
  ];
  useOwnKeys('Search in the timeline', [
    ['Enter', 'Next hit'],
    ['Shift+Enter', 'Previous hit'],
    ['Escape', 'End the search'],
  ]);
  useOwnKeys('Timeline, while the picture has the focus', [
    ['ArrowLeft,ArrowRight', 'Previous or next slice of the lane'],
    ['ArrowUp,ArrowDown', 'Parent or child of the slice'],
    ['Enter', 'Zoom to what is selected'],
    ['PageUp,PageDown', 'Scroll the tracks'],
    ['Home,End', 'First or last track'],
  ]);
  useKeys('Timeline', [
    ...zoomKeys,
    { keys: 'n', label: 'Next slice of the same name', run: () => sameName(1) },
    { keys: 'p', label: 'Previous slice of the same name', run: () => sameName(-1) },
    { keys: '[', label: 'Along the arrow that leads here', run: () => arrow(true) },
    { keys: ']', label: 'Along the arrow that leads on', run: () => arrow(false) },
    // The same places on layouts that have other letters there.
    { keys: 'BracketLeft', label: '', run: () => arrow(true) },
    { keys: 'BracketRight', label: '', run: () => arrow(false) },
    { keys: 'o', label: 'Open or fold a track', run: toggleTrack },
    { keys: 'm', label: 'Measure, or stop measuring', run: measure },
    { keys: '/', label: 'Search', run: () => field.current?.select() },
    { keys: 't', label: 'Show what is in view as a table', run: () => setListed((old) => !old) },
    {
      keys: 'Escape',
      label: 'End the selection',
      run: () => {
        if (measuring) measure();
        else clear();
      },
    },
  ]);
  useCommands([
    { title: 'Show all of the trace', hint: '0', run: () => showAll(pane.current!) },
    { title: 'Search slices', hint: '/', run: () => field.current?.select() },
    { title: 'Measure', hint: 'm', run: measure },
    { title: 'Open the trace in Perfetto', run: () => handOver.run(false) },
    { title: 'Open the window in Perfetto', run: () => handOver.run(true) },
  ]);
  // While the canvas has the focus, the arrow keys go from slice to slice.
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const page = picture().height * 0.7;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      ArrowUp: () => climb(-1),
      ArrowDown: () => climb(1),
      Enter: zoomToIt,
      PageDown: () => picture().scrollTo(picture().scroll + page),
      PageUp: () => picture().scrollTo(picture().scroll - page),
      Home: () => picture().scrollTo(0),
      End: () => picture().scrollTo(Infinity),
    };
    const run = keys[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  };

  const events = {
    view: () => writeAddress(),
    pick,
    follow: (ref: SliceRef) => go(ref),
    area: (chosen: Area | null, isDone: boolean) => {
      if (!isDone) return;
      setArea(chosen);
      if (chosen) setSelected(null);
      if (chosen) picture().setSelected(null);
    },
    measured: (from: number, to: number) => notify(`Measured: ${exactly(to - from)}`),
    drawn: () => {
      clearTimeout(timers.current.rows);
      timers.current.rows = setTimeout(() => pane.current && setRows(rowsInView(picture())), IN_VIEW_MS);
    },
    failed,
  };
  const ready = useCallback((created: Pane) => {
    pane.current = created;
    readAddress();
    return () => {
      clearTimeout(timers.current.address);
      clearTimeout(timers.current.rows);
      asked.current?.abort();
      pane.current = null;
    };
  }, []);

  const { result } = search;
  const position = result && selected ? search.hits.findIndex((hit) => hit.slice === selected.slice) : -1;
  const label = useMemo(
    () => `Timeline of ${trace}: ${plural(head.tracks.length, 'track')}, ${slices(head.slices)}, ${duration(head.length_ns)}. The table after it has what is in view.`,
    [head],
  );
  return (
    <div class="timeline">
      <div class="timeline-bar">
        <h1>
          Timeline <a href={`#/traces/${trace}`}>{trace}</a>
        </h1>
        <span class="muted">
          {duration(head.length_ns)}, {slices(head.slices)}
        </span>
        <form
          role="search"
          class="timeline-search"
          onSubmit={(event) => {
            event.preventDefault();
            nextHit(1);
          }}
        >
          <input
            ref={field}
            type="search"
            placeholder="Search slices ( / )"
            aria-label="Search slices by name"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Escape') {
                setText('');
                event.currentTarget.blur();
              } else if (event.key === 'Enter' && event.shiftKey) {
                event.preventDefault();
                nextHit(-1);
              }
            }}
          />
          <span class="muted" role="status">
            {text === '' ? '' : search.busy ? 'searching…' : result ? `${position >= 0 ? `${count(position + 1)} of ` : ''}${plural(result.count, 'slice')}, ${duration(result.sum)}` : ''}
          </span>
          {result && result.count > 0 && (
            <>
              <button type="button" class="quiet" aria-label="Previous hit" title="Previous (Shift+Enter)" onClick={() => nextHit(-1)}>
                ‹
              </button>
              <button type="button" class="quiet" aria-label="Next hit" title="Next (Enter)" onClick={() => nextHit(1)}>
                ›
              </button>
            </>
          )}
        </form>
        <span class="timeline-actions">
          <button type="button" class="quiet" aria-pressed={measuring} onClick={measure} title="m">
            Measure
          </button>
          <button type="button" class="quiet" aria-pressed={listed} onClick={() => setListed(!listed)} title="t">
            Table
          </button>
          <button type="button" class="quiet" onClick={() => showAll(pane.current!)} title="0">
            Fit
          </button>
          <button type="button" class="quiet" disabled={handOver.busy} onClick={() => handOver.run(picture().span < picture().length * 0.98)} title={`Open the window in Perfetto; of a trace larger than ${HANDOVER_MAX >> 30} GiB zoom in first`}>
            Perfetto
          </button>
        </span>
      </div>
      <ProblemBox problem={problem ?? search.problem ?? handOver.problem} />
      <TimelinePane source={source} label={label} events={events} onReady={ready} onKey={onKey} />
      <div class={selected || area || listed ? 'timeline-below' : 'timeline-below empty-below'}>
        {selected && <SlicePanel slice={selected} onGo={go} onZoom={zoomToIt} onSearch={find} />}
        {area && <AreaTable source={source} area={area} onName={find} />}
        <InView rows={rows} shown={listed} onPick={(row) => select(() => source.sliceAt(row.lane, row.begin + row.dur / 2, row.dur, asked.current!.signal), true)} />
      </div>
    </div>
  );
}

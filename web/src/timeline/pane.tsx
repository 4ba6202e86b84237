// SPDX-License-Identifier: Apache-2.0
// One timeline as an element: overview, titles of tracks, canvas. It owns the picture; what is selected, found and searched
// belongs to the view around it. Two panes in one page move together by a TimelineLink.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { asProblem } from '../api';
import { onThemeChange } from '../theme';
import { moment } from '../units';
import { Headers, placeTitles } from './headers';
import { type Band, layoutOf, orderAfterMove } from './layout';
import { topOfLanes } from './overlay';
import { Overview } from './overview';
import { type PictureEvents, TimelinePicture } from './picture';
import type { Step, TimelineSource } from './source';
import { kindOfTrace, readChoices, writeChoices } from './tracks';
import { windowAt } from './view';
import './timeline.css';

export interface Pane {
  picture: TimelinePicture;
  overview: Overview;
  toggle: (band: Band) => void;
}

interface PaneProps {
  source: TimelineSource;
  steps?: readonly Step[]; // not given: asked for after the first complete picture
  label: string;
  events: PictureEvents;
  onReady: (pane: Pane) => (() => void) | void; // returns what to do when the pane goes
  onKey?: (event: KeyboardEvent) => void; // while the canvas has the focus
}

const NO_STEPS: readonly Step[] = [];

export function TimelinePane({ source, steps: given, label, events, onReady, onKey }: PaneProps) {
  const kind = useMemo(() => kindOfTrace(source.head), [source]);
  const [choices, setChoices] = useState(() => readChoices(kind));
  const layout = useMemo(() => layoutOf(source.head, choices), [source, choices]);
  const [steps, setSteps] = useState(given ?? NO_STEPS);
  const [scroll, setScroll] = useState(0);
  const [height, setHeight] = useState(800);
  const canvas = useRef<HTMLCanvasElement>(null);
  const strip = useRef<HTMLCanvasElement>(null);
  const inner = useRef<HTMLDivElement | null>(null);
  const thumb = useRef<HTMLDivElement>(null);
  const range = useRef<HTMLSpanElement>(null);
  const pane = useRef<Pane | null>(null);
  const latest = useRef({ events, onReady, choices, layout, steps });
  latest.current = { events, onReady, choices, layout, steps };

  const change = (key: string, by: object) => {
    const now = latest.current.choices;
    const next = { ...now, tracks: { ...now.tracks, [key]: { ...now.tracks[key], ...by } } };
    setChoices(next);
    writeChoices(kind, next);
  };
  const actions = useMemo(
    () => ({
      toggle: (band: Band) => change(band.key, { open: !band.open }),
      pin: (band: Band) => change(band.key, { pinned: !band.pinned }),
      hide: (band: Band) => change(band.key, { hidden: true }),
      move: (band: Band, by: -1 | 1) => {
        const order = orderAfterMove(latest.current.layout, band.key, by);
        if (order.length === 0) return;
        const next = { ...latest.current.choices, order };
        setChoices(next);
        writeChoices(kind, next);
      },
    }),
    [kind],
  );
  const showAll = () => {
    const tracks = Object.fromEntries(Object.entries(choices.tracks).map(([key, choice]) => [key, { ...choice, hidden: false }]));
    const next = { ...choices, tracks };
    setChoices(next);
    writeChoices(kind, next);
  };

  useEffect(() => {
    let coarse = 0;
    let isDrawn = false;
    const left = new AbortController();
    const element = canvas.current!; // the reference is gone before this effect ends
    const placeThumb = (picture: TimelinePicture) => {
      const room = picture.height - picture.top - picture.layout.pinnedHeight;
      const all = Math.max(picture.layout.height, room, 1);
      if (!thumb.current) return;
      thumb.current.style.height = `${(room / all) * 100}%`;
      thumb.current.style.top = `${(picture.scroll / all) * 100}%`;
      thumb.current.hidden = room >= all;
    };
    const picture = new TimelinePicture(element, source, latest.current.layout, {
      ...forwarded(() => latest.current.events),
      moved: () => {
        overview.invalidate();
        showRange();
      },
      scroll: (y) => {
        if (inner.current) {
          inner.current.style.transform = `translateY(${-y}px)`;
          placeTitles(inner.current, y);
        }
        placeThumb(picture);
        if (Math.abs(y - coarse) > 150) setScroll((coarse = y));
      },
      drawn: () => {
        if (!isDrawn) {
          // For whoever measures (bench/web.mjs).
          performance.mark('profd:timeline');
          if (!given) askSteps();
        }
        isDrawn = true;
        overview.invalidate();
        latest.current.events.drawn?.();
      },
    });
    const overview = new Overview(strip.current!, picture.lanes, source.head, picture.length, () => picture.view, (view, glide) => (glide ? picture.glideTo(view) : picture.setView(view, true)));
    const askSteps = () => {
      source.steps(left.signal).then(setSteps, (error: unknown) => {
        // The picture does not need them, but one of other columns has to go.
        if (asProblem(error).status === 409) latest.current.events.failed?.(error);
      });
    };
    const showRange = () => {
      const { from, to } = picture.view;
      if (range.current) range.current.textContent = `${moment(from, (to - from) / 100)} to ${moment(to, (to - from) / 100)}`;
    };
    showRange();
    picture.setSteps(latest.current.steps);
    pane.current = { picture, overview, toggle: actions.toggle };
    const resized = new ResizeObserver(() => {
      setHeight(element.clientHeight);
      picture.scrollTo(picture.scroll);
      placeThumb(picture);
      showRange();
    });
    resized.observe(element);
    const unthemed = onThemeChange(() => {
      picture.recolor();
      overview.recolor();
    });
    const leave = latest.current.onReady(pane.current);
    return () => {
      left.abort();
      leave?.();
      unthemed();
      resized.disconnect();
      overview.close();
      picture.close();
      pane.current = null;
    };
  }, [source]);
  useEffect(() => pane.current?.picture.setLayout(layout), [layout]);
  // In the same frame as the titles.
  useLayoutEffect(() => pane.current?.picture.setSteps(steps), [steps]);
  useLayoutEffect(() => {
    if (inner.current) placeTitles(inner.current, pane.current?.picture.scroll ?? 0);
  });

  // The thumb is for the mouse; keys scroll, too.
  const dragThumb = (event: PointerEvent) => {
    const { picture } = pane.current!;
    const track = thumb.current!.parentElement!;
    const [y, scrolled] = [event.clientY, picture.scroll];
    const move = (now: PointerEvent) => picture.scrollTo(scrolled + ((now.clientY - y) / track.clientHeight) * picture.layout.height);
    const end = () => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', end);
    };
    event.preventDefault();
    addEventListener('pointermove', move);
    addEventListener('pointerup', end);
  };

  return (
    <div class="pane">
      <div class="pane-corner">
        <span ref={range} class="pane-range" />
      </div>
      <canvas ref={strip} class="pane-overview" aria-hidden="true" />
      <div class="pane-titles">
        <div class="pane-legend">
          {layout.hidden.length > 0 && (
            <button type="button" class="link" onClick={showAll}>
              Show {layout.hidden.length} hidden
            </button>
          )}
        </div>
        <Headers layout={layout} scroll={scroll} height={height} top={topOfLanes(steps)} actions={actions} inner={(element) => (inner.current = element)} />
      </div>
      <div class="pane-canvas">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={label}
          onKeyDown={onKey}
        />
        <div class="pane-scroll" aria-hidden="true">
          <div ref={thumb} onPointerDown={dragThumb} />
        </div>
      </div>
    </div>
  );
}

// Events go to the handlers of the newest rendering.
function forwarded(events: () => PictureEvents): PictureEvents {
  return {
    view: (view) => events().view?.(view),
    pick: (run, at) => events().pick?.(run, at),
    follow: (ref) => events().follow?.(ref),
    area: (area, isDone) => events().area?.(area, isDone),
    measured: (from, to) => events().measured?.(from, to),
    failed: (error) => events().failed?.(error),
  };
}

// Shows all of the trace.
export function showAll(pane: Pane): void {
  pane.picture.glideTo(windowAt(0, pane.picture.length, pane.picture.length));
}

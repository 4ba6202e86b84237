// SPDX-License-Identifier: Apache-2.0
// The titles of tracks beside the canvas, with what can be done to each. Only those near the view are elements.

import type { Band, Layout } from './layout';
import type { CounterTrack } from './source';

interface HeaderActions {
  toggle: (band: Band) => void;
  pin: (band: Band) => void;
  hide: (band: Band) => void;
  move: (band: Band, by: -1 | 1) => void;
}

const MARGIN = 400;
const TITLE = 22;

// Heights of the picture, from its bottom to its top.
function rangeOf({ min, max }: CounterTrack): string {
  return [Math.min(0, min), max].map((value) => value.toLocaleString('en', { maximumSignificantDigits: 3 })).join(' to ');
}

function Header({ band, actions }: { band: Band; actions: HeaderActions }) {
  const depth = band.track && band.track.lanes > 1 ? `${band.track.lanes} deep` : '';
  const verb = band.open ? 'Fold' : 'Open';
  return (
    <div class="track" role="listitem" data-y={band.y} data-height={band.height} style={{ top: `${band.y}px`, height: `${band.height + 1}px` }}>
      <button type="button" class="track-fold" aria-expanded={band.open} aria-label={`${verb} ${band.title}`} title={`${verb} (o)`} onClick={() => actions.toggle(band)}>
        <i aria-hidden="true" />
      </button>
      <span class="track-title" title={[band.title, band.detail, depth].filter(Boolean).join(', ')}>
        {band.title}
        {band.counter && band.open && <small class="track-range">{rangeOf(band.counter)}</small>}
        {(band.detail || (depth && band.height > 34)) && <small>{band.detail || depth}</small>}
      </span>
      <span class="track-actions">
        <button type="button" aria-label={`Move ${band.title} up`} title="Move up" onClick={() => actions.move(band, -1)}>
          ↑
        </button>
        <button type="button" aria-label={`Move ${band.title} down`} title="Move down" onClick={() => actions.move(band, 1)}>
          ↓
        </button>
        <button type="button" aria-label={`Pin ${band.title}`} aria-pressed={band.pinned} title={band.pinned ? 'Unpin' : 'Pin to the top'} onClick={() => actions.pin(band)}>
          ⚲
        </button>
        <button type="button" aria-label={`Hide ${band.title}`} title="Hide" onClick={() => actions.hide(band)}>
          ✕
        </button>
      </span>
    </div>
  );
}

// The title of a tall track stays in view while any of the track is.
export function placeTitles(inner: HTMLElement, scroll: number): void {
  for (const child of inner.children) {
    if (!(child instanceof HTMLElement)) continue;
    const { y, height } = child.dataset;
    const over = Math.max(0, Math.min(scroll - Number(y), Number(height) - TITLE));
    child.style.paddingTop = over > 0 ? `${over}px` : '';
  }
}

// `scroll` need not be exact: a margin is drawn around what is in view. Whoever scrolls moves the inner element.
export function Headers({ layout, scroll, height, top, actions, inner }: { layout: Layout; scroll: number; height: number; top: number; actions: HeaderActions; inner: (element: HTMLDivElement | null) => void }) {
  const near = (band: Band) => band.y + band.height > scroll - MARGIN && band.y < scroll + height + MARGIN;
  return (
    <div class="tracks" role="list" aria-label="Tracks">
      {layout.pinnedHeight > 0 && (
        <div class="tracks-part" role="presentation" style={{ top: `${top}px`, height: `${layout.pinnedHeight}px` }}>
          {layout.bands.filter((band) => band.pinned).map((band) => (
            <Header key={band.key} band={band} actions={actions} />
          ))}
        </div>
      )}
      <div class="tracks-part" role="presentation" style={{ top: `${top + layout.pinnedHeight}px`, bottom: '0' }}>
        <div ref={inner} role="presentation">
          {layout.bands.filter((band) => !band.pinned && near(band)).map((band) => (
            <Header key={band.key} band={band} actions={actions} />
          ))}
        </div>
      </div>
    </div>
  );
}

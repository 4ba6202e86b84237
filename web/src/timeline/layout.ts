// SPDX-License-Identifier: Apache-2.0
// Where each track is drawn: order, folded or open, hidden, pinned. Pure: the choices are remembered by tracks.ts.

import type { CounterTrack, TimelineHead, Track } from './source';

export const ROW = 18;
export const ROW_FOLDED = 3;
const BAND_MIN = 22; // its title has to fit
const BAND_GAP = 4;
const COUNTER = 40;

// What a user chose for a track; what is not there is as usual.
export interface Choice {
  open?: boolean;
  hidden?: boolean;
  pinned?: boolean;
}

export interface Choices {
  tracks: Record<string, Choice>; // by key of the track
  order: string[]; // keys of tracks that were moved: they come in this order
}

export interface Band {
  key: string;
  title: string;
  detail: string; // process or thread
  track: Track | null; // null: a counter
  counter: CounterTrack | null;
  open: boolean;
  pinned: boolean;
  hidden: boolean;
  row: number; // height of a lane
  y: number; // pixels from the top of its part: the pinned ones or the others
  height: number; // without the gap below it
}

export interface Layout {
  bands: Band[]; // in order of y; pinned ones first
  hidden: Band[];
  pinnedHeight: number;
  height: number; // of what scrolls
  byLane: (lane: number) => Band | null;
}

// The same track of another trace of the same kind has the same key: numbers of processes and threads are left out.
export function trackKey(kind: string, title: string): string {
  return `${kind}:${title.replace(/\b\d{4,}\b/g, '#')}`;
}

function isOpenUsually(track: Track): boolean {
  return track.kind === 'gpu' || (track.kind !== 'python' && track.lanes <= 12);
}

function bandOf(track: Track, key: string, choice: Choice, isAlone: boolean): Band {
  const open = choice.open ?? isOpenUsually(track);
  const row = open ? ROW : track.lanes === 1 ? ROW_FOLDED * 2 : ROW_FOLDED;
  return {
    key,
    title: track.title,
    detail: isAlone ? '' : (track.process ?? ''),
    track,
    counter: null,
    open,
    pinned: choice.pinned ?? false,
    hidden: choice.hidden ?? false,
    row,
    y: 0,
    height: Math.max(BAND_MIN, track.lanes * row),
  };
}

function counterBand(counter: CounterTrack, key: string, choice: Choice, isAlone: boolean): Band {
  const open = choice.open ?? true;
  return {
    key,
    title: counter.title,
    detail: isAlone ? '' : (counter.process ?? ''),
    track: null,
    counter,
    open,
    pinned: choice.pinned ?? false,
    hidden: choice.hidden ?? false,
    row: open ? COUNTER : BAND_MIN,
    y: 0,
    height: open ? COUNTER : BAND_MIN,
  };
}

export function layoutOf(head: TimelineHead, choices: Choices): Layout {
  const seen = new Map<string, number>();
  const unique = (key: string) => {
    const times = seen.get(key) ?? 0;
    seen.set(key, times + 1);
    return times === 0 ? key : `${key}~${times}`;
  };
  const processes = new Set([...head.tracks, ...head.counters].map((each) => each.process ?? ''));
  const isAlone = processes.size <= 1;
  const all: Band[] = [];
  const lastGpu = head.tracks.map((track) => track.kind).lastIndexOf('gpu');
  const addCounters = () => {
    for (const counter of head.counters) {
      const key = unique(trackKey('counter', counter.title));
      all.push(counterBand(counter, key, choices.tracks[key] ?? {}, isAlone));
    }
  };
  head.tracks.forEach((track, i) => {
    if (i === lastGpu + 1) addCounters();
    if (track.lanes === 0) return;
    const key = unique(trackKey(track.kind, track.title));
    all.push(bandOf(track, key, choices.tracks[key] ?? {}, isAlone));
  });
  if (lastGpu + 1 >= head.tracks.length) addCounters();

  const place = new Map(choices.order.map((key, i) => [key, i]));
  // Tracks that were moved change places among each other; the others stay where they are.
  const slots = all.map((band, i) => (place.has(band.key) ? i : -1)).filter((i) => i >= 0);
  const moved = slots.map((i) => all[i]!).sort((a, b) => place.get(a.key)! - place.get(b.key)!);
  slots.forEach((slot, i) => (all[slot] = moved[i]!));

  const pinned = all.filter((band) => band.pinned && !band.hidden);
  const others = all.filter((band) => !band.pinned && !band.hidden);
  const pile = (bands: Band[]) => {
    let y = 0;
    for (const band of bands) {
      band.y = y;
      y += band.height + BAND_GAP;
    }
    return y;
  };
  const pinnedHeight = pile(pinned);
  const height = pile(others);
  const bands = [...pinned, ...others];
  const lanes = new Map<number, Band>();
  for (const band of bands) if (band.track) for (let i = 0; i < band.track.lanes; i++) lanes.set(band.track.lane + i, band);
  return { bands, hidden: all.filter((band) => band.hidden), pinnedHeight, height, byLane: (lane) => lanes.get(lane) ?? null };
}

// The order after a track moved one place up or down among those that are shown like it.
export function orderAfterMove(layout: Layout, key: string, by: -1 | 1): string[] {
  const band = layout.bands.find((each) => each.key === key);
  if (!band) return [];
  const peers = layout.bands.filter((each) => each.pinned === band.pinned).map((each) => each.key);
  const at = peers.indexOf(key);
  const to = at + by;
  if (to < 0 || to >= peers.length) return [];
  [peers[at], peers[to]] = [peers[to]!, peers[at]!];
  const others = layout.bands.filter((each) => each.pinned !== band.pinned).map((each) => each.key);
  return [...peers, ...others];
}

// The band at a height, and the lane in it.
export function bandAt(layout: Layout, y: number, scroll: number): { band: Band; lane: number } | null {
  const isPinned = y < layout.pinnedHeight;
  const at = isPinned ? y : y - layout.pinnedHeight + scroll;
  for (const band of layout.bands) {
    if (band.pinned !== isPinned || at < band.y || at >= band.y + band.height) continue;
    const lane = band.track ? Math.min(Math.floor((at - band.y) / band.row), band.track.lanes - 1) : -1;
    return { band, lane: band.track ? band.track.lane + lane : -1 };
  }
  return null;
}

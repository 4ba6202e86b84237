// SPDX-License-Identifier: Apache-2.0
// What a timeline asks of profd: the HTTP API's timeline of one trace, with the sum of its columns, so that answers that
// never change are kept by the browser.

import { bytes, get, withQuery } from '../api';
import type { SliceRef } from '../types';
import { decodeTile, type TileRuns } from './decode';

type TrackKind = 'gpu' | 'thread' | 'python' | 'async' | 'instant' | 'counter';

export interface Track {
  track: number;
  kind: TrackKind;
  title: string;
  process?: string;
  thread?: string;
  device?: number;
  stream?: number;
  lane: number; // its first lane; the others follow
  lanes: number;
  slices: number;
  busy_ns: number;
}

export interface CounterTrack {
  track: number;
  title: string;
  process?: string;
  min: number;
  max: number;
  samples: number;
}

export interface Step {
  begin: number;
  end: number;
  label: string;
  phase?: string;
}

export interface TimelineHead {
  trace: string;
  sum: string;
  first_at?: string; // wall clock
  first_ts?: string; // clock of the trace, to which the shifts of ranks are added
  length_ns: number;
  slices: number;
  names: number;
  name_block: number;
  tracks: Track[];
  lanes: number;
  counters: CounterTrack[];
}

export type Launch = SliceRef & { delay_ns?: number; parents?: SliceRef[] };

export interface SliceDetail extends SliceRef {
  track: number;
  title: string;
  class: string;
  category: string;
  self: number;
  depth: number;
  args: Record<string, unknown>;
  parents: SliceRef[];
  launch?: Launch;
  launched?: SliceRef[];
  flows?: { in: SliceRef[]; out: SliceRef[] };
  gap_before_ns?: number;
  before?: SliceRef; // in its lane
  after?: SliceRef;
  same?: { count: number; rank: number; sum: number; min: number; max: number; previous?: SliceRef; next?: SliceRef };
}

export interface SearchResult {
  count: number;
  sum: number;
  names: { name: string; count: number; sum: number }[];
  matches: SliceRef[];
  more: boolean;
}

export interface SelectionRow {
  name: string;
  category: string;
  class: string;
  count: number;
  sum: number;
  mean: number;
  min: number;
  max: number;
  self: number;
}

export interface SelectionResult {
  from: number;
  to: number;
  count: number;
  busy: number;
  rows: SelectionRow[];
  more: boolean;
}

export type CounterPoint = [at: number, min: number, max: number, last: number];

export class TimelineSource {
  private readonly path: string;

  constructor(
    readonly trace: string,
    readonly head: TimelineHead,
  ) {
    this.path = `/v1/traces/${encodeURIComponent(trace)}`;
  }

  static async open(trace: string, signal?: AbortSignal): Promise<TimelineSource> {
    return new TimelineSource(trace, await get<TimelineHead>(`/v1/traces/${encodeURIComponent(trace)}/timeline`, signal));
  }

  // Apart from the head: profd finds them in all GPU events, and answers one request of a trace after the other.
  async steps(signal?: AbortSignal): Promise<Step[]> {
    return (await get<{ steps: Step[] }>(`${this.path}/timeline/steps?v=${this.head.sum}`, signal)).steps;
  }

  async tile(level: number, index: number, first: number, last: number, signal: AbortSignal): Promise<TileRuns> {
    return decodeTile(await bytes(`${this.path}/tiles/${level}/${index}?lanes=${first}-${last}&v=${this.head.sum}`, signal));
  }

  names(block: number): Promise<{ first: number; names: [string, string][] }> {
    return get(`${this.path}/names/${block}?v=${this.head.sum}`);
  }

  async counter(track: number, from: number, to: number, points: number, signal: AbortSignal): Promise<CounterPoint[]> {
    const path = withQuery(`${this.path}/counters/${track}`, { from, to, points });
    return (await get<{ points: CounterPoint[] }>(path, signal)).points;
  }

  slice(slice: number, signal?: AbortSignal): Promise<SliceDetail> {
    return get(`${this.path}/slice?slice=${slice}`, signal);
  }

  // The slice of a lane at a time, or the nearest one that far away.
  sliceAt(lane: number, at: number, within: number, signal?: AbortSignal): Promise<SliceDetail> {
    return get(withQuery(`${this.path}/slice`, { lane, at: Math.max(0, Math.floor(at)), within: Math.ceil(within) }), signal);
  }

  search(name: string, after: number | null, limit: number, signal: AbortSignal): Promise<SearchResult> {
    return get(withQuery(`${this.path}/search`, { name, after, limit }), signal);
  }

  selection(from: number, to: number, lanes: string | null, top: number, signal: AbortSignal): Promise<SelectionResult> {
    return get(withQuery(`${this.path}/selection`, { from: Math.floor(from), to: Math.ceil(to), lanes, top }), signal);
  }
}

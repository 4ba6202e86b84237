// SPDX-License-Identifier: Apache-2.0
// Which tiles a window needs, and the tiles that the page has. A tile has 1024 buckets of 2^level nanoseconds of up to 64
// lanes: it never changes, so it is asked for once and kept until others need its memory. Each frame lists the tiles that it needs;
// what nobody wants any more is no longer asked for. Draws nothing: whoever owns the cache keeps its pictures in `picture`.

import { runsBytes, TILE_BUCKETS, type TileRuns } from './decode';

export const GROUP_LANES = 64;
const LEVEL_MAX = 52; // 2^52 buckets of a nanosecond are beyond what a Number counts
// A browser has six connections to a host; one is the event stream's, one is left for what a user clicks.
const REQUESTS_MAX = 4;
const BYTES_MAX = 48 << 20;
const RETRY_MS = 2000;

export interface Tile<P> {
  readonly level: number;
  readonly group: number;
  readonly index: number;
  runs: TileRuns | null; // null: on its way, or it failed
  picture: P | null;
  used: number; // frame
  wanted: number; // frame
  failedAt: number; // 0: not
  control: AbortController | null;
}

type LoadTile = (level: number, index: number, first: number, last: number, signal: AbortSignal) => Promise<TileRuns>;

// The level at which a bucket has at least a pixel.
export function levelOf(nsPerPixel: number): number {
  return Math.min(Math.max(Math.ceil(Math.log2(nsPerPixel) - 1e-9), 0), LEVEL_MAX);
}

// The level at which one tile has all of the trace.
export function levelOfAll(length: number): number {
  return levelOf(Math.max(length, 1) / TILE_BUCKETS);
}

export function tileSpan(level: number): number {
  return TILE_BUCKETS * 2 ** level;
}

export function tileBegin(level: number, index: number): number {
  return index * tileSpan(level);
}

export function tileIndex(level: number, at: number): number {
  return Math.floor(at / tileSpan(level));
}

export function groupOf(lane: number): number {
  return Math.floor(lane / GROUP_LANES);
}

export class TileCache<P> {
  private readonly tables = new Map<number, Map<number, Tile<P>>>(); // by level and group, then by index
  private readonly queues: Tile<P>[][] = [[], [], []]; // by priority, of this frame
  private frame = 0;
  private bytes = 0;
  private count = 0;
  private loading = 0;
  private isClosed = false;
  requests = 0; // so far

  constructor(
    private readonly load: LoadTile,
    private readonly lanes: number,
    private readonly rootLevel: number, // its tiles are given up last
    private readonly pictureBytes: (lanes: number) => number,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  lanesOf(group: number): number {
    return Math.min(GROUP_LANES, this.lanes - group * GROUP_LANES);
  }

  get isLoading(): boolean {
    return this.loading > 0;
  }

  private table(level: number, group: number): Map<number, Tile<P>> {
    const key = group * 64 + level;
    let found = this.tables.get(key);
    if (!found) this.tables.set(key, (found = new Map()));
    return found;
  }

  beginFrame(): void {
    this.frame++;
    for (const queue of this.queues) queue.length = 0;
  }

  // The tile if it is here.
  get(level: number, group: number, index: number): Tile<P> | null {
    const tile = this.tables.get(group * 64 + level)?.get(index);
    if (!tile?.runs) return null;
    tile.used = this.frame;
    return tile;
  }

  // The nearest coarser tile that is here and has this one's time.
  ancestor(level: number, group: number, index: number): Tile<P> | null {
    for (let up = level + 1, at = index; up <= this.rootLevel; up++) {
      at = Math.floor(at / 2);
      const tile = this.get(up, group, at);
      if (tile) return tile;
    }
    return null;
  }

  // Priority 0 is in view, 1 next to it, 2 may be next. Lanes and times that the trace does not have are ignored.
  want(level: number, group: number, index: number, priority: 0 | 1 | 2): void {
    if (level < 0 || level > this.rootLevel || index < 0 || this.lanesOf(group) <= 0) return;
    if (index > 0 && level === this.rootLevel) return;
    const table = this.table(level, group);
    let tile = table.get(index);
    if (!tile) {
      tile = {
        level,
        group,
        index,
        runs: null,
        picture: null,
        used: this.frame,
        wanted: this.frame,
        failedAt: 0,
        control: null,
      };
      table.set(index, tile);
      this.count++;
    }
    tile.wanted = this.frame;
    if (!tile.runs && !tile.control) this.queues[priority]!.push(tile);
  }

  // Gives up what is on its way and no longer wanted, asks for what is wanted, and frees memory.
  endFrame(): void {
    if (this.loading > 0) {
      for (const table of this.tables.values())
        for (const tile of table.values()) {
          if (tile.control && tile.wanted !== this.frame) tile.control.abort();
        }
    }
    this.next();
    if (this.bytes > BYTES_MAX || this.count > 4096) this.evict();
  }

  private next(): void {
    for (const queue of this.queues) {
      for (const tile of queue) {
        if (this.loading >= REQUESTS_MAX) return;
        if (tile.runs || tile.control) continue;
        if (tile.failedAt > 0 && this.now() - tile.failedAt < RETRY_MS) continue;
        void this.ask(tile);
      }
    }
  }

  private async ask(tile: Tile<P>): Promise<void> {
    const control = new AbortController();
    const first = tile.group * GROUP_LANES;
    tile.control = control;
    this.loading++;
    this.requests++;
    try {
      const runs = await this.load(tile.level, tile.index, first, first + this.lanesOf(tile.group) - 1, control.signal);
      if (this.isClosed || control.signal.aborted) return;
      tile.runs = runs;
      tile.failedAt = 0;
      this.bytes += runsBytes(runs) + this.pictureBytes(runs.lanes);
    } catch (error) {
      if (!this.isClosed && !control.signal.aborted) {
        tile.failedAt = this.now();
        this.failed(error);
      }
    } finally {
      tile.control = null;
      this.loading--;
      if (!this.isClosed) {
        this.next();
        this.changed();
      }
    }
  }

  // Frees the tiles that were not used for longest, down to three quarters of what may be kept. Those of the entire trace go
  // last: they stand in for all others, but of thousands of lanes they alone are more than may be kept.
  private evict(): void {
    const old: Tile<P>[] = [];
    for (const table of this.tables.values())
      for (const tile of table.values()) {
        const isKept = tile.control || tile.used === this.frame || tile.wanted === this.frame;
        if (!isKept) old.push(tile);
      }
    const isRoot = (tile: Tile<P>) => (tile.level === this.rootLevel && tile.runs ? 1 : 0);
    old.sort((a, b) => isRoot(a) - isRoot(b) || a.used - b.used);
    for (const tile of old) {
      if (this.bytes < BYTES_MAX * 0.75 && this.count < 3072) return;
      if (tile.runs) this.bytes -= runsBytes(tile.runs) + this.pictureBytes(tile.runs.lanes);
      this.tables.get(tile.group * 64 + tile.level)!.delete(tile.index);
      this.count--;
    }
  }

  close(): void {
    this.isClosed = true;
    for (const table of this.tables.values()) for (const tile of table.values()) tile.control?.abort();
    this.tables.clear();
  }
}

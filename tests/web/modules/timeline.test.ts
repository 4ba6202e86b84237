// SPDX-License-Identifier: Apache-2.0
// The parts of the timeline that draw nothing: windows, tiles, runs, pixels, tracks, areas.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinRanges, mergeSelections } from '../../../web/src/timeline/area';
import { decodeTile, NO_NAME, runAfter, runAt, TILE_BUCKETS, TileError, type TileRuns } from '../../../web/src/timeline/decode';
import { bandAt, type Choices, layoutOf, orderAfterMove, ROW, ROW_FOLDED, trackKey } from '../../../web/src/timeline/layout';
import { isBright, Names, pixelOf, shade, shortName } from '../../../web/src/timeline/names';
import { exactly } from '../../../web/src/timeline/overlay';
import { paintTile, profileOf } from '../../../web/src/timeline/paint';
import { nearestEdge, ordered } from '../../../web/src/timeline/snap';
import type { SelectionRow, TimelineHead, Track } from '../../../web/src/timeline/source';
import { groupOf, levelOf, levelOfAll, TileCache, tileBegin, tileIndex, tileSpan } from '../../../web/src/timeline/tiles';
import { isNear, panBy, rulerStep, rulerText, SPAN_MIN, windowAround, windowAt, windowBetween, windowFrom, windowThatShows, windowWith, zoomAt } from '../../../web/src/timeline/view';

// lanes: [name, x, width, fill] of each run
function bytesOf(lanes: [number, number, number, number][][]): ArrayBuffer {
  const runs = lanes.flat();
  const bytes = new ArrayBuffer(8 + 4 * (lanes.length + 1) + 9 * runs.length);
  const words = new Uint32Array(bytes, 0, 2 + lanes.length + 1 + runs.length);
  words.set([lanes.length, runs.length]);
  let at = 0;
  lanes.forEach((lane, i) => {
    words[2 + i] = at;
    at += lane.length;
  });
  words[2 + lanes.length] = at;
  words.set(runs.map((run) => run[0]), 3 + lanes.length);
  const halves = new Uint16Array(bytes, 8 + 4 * (lanes.length + 1) + 4 * runs.length, 2 * runs.length);
  halves.set([...runs.map((run) => run[1]), ...runs.map((run) => run[2])]);
  new Uint8Array(bytes, bytes.byteLength - runs.length).set(runs.map((run) => run[3]));
  return bytes;
}

const tileOf = (lanes: [number, number, number, number][][]): TileRuns => decodeTile(bytesOf(lanes));

test('a window stays in the trace, and is never narrower than a nanosecond', () => {
  assert.deepEqual(windowAt(-5, 10, 100), { from: 0, to: 10 });
  assert.deepEqual(windowAt(95, 10, 100), { from: 90, to: 100 });
  assert.deepEqual(windowAt(50, 1000, 100), { from: 0, to: 100 });
  assert.equal(windowAt(50, 0, 100).to - 50, SPAN_MIN);
});

test('zooming keeps the time at the pointer where it is, from minutes to a nanosecond', () => {
  const length = 247e9;
  let view = windowAt(0, length, length);
  const at = 123_456_789_012;
  for (let i = 0; i < 200 && view.to - view.from > 1; i++) {
    const before = (at - view.from) / (view.to - view.from);
    view = zoomAt(view, at, 0.8, length);
    assert.ok(Math.abs((at - view.from) / (view.to - view.from) - before) < 1e-4);
  }
  assert.ok(view.to - view.from < 1.001);
  assert.ok(view.from <= at && at <= view.to);
  for (let i = 0; i < 200; i++) view = zoomAt(view, at, 1.3, length);
  assert.deepEqual(view, { from: 0, to: length });
});

test('a window that moves by itself arrives', () => {
  const goal = { from: 900, to: 910 };
  let view = { from: 0, to: 1000 };
  let frames = 0;
  for (; !isNear(view, goal); frames++) {
    const next = windowBetween(view, goal, 0.35);
    assert.ok(next.to - next.from < view.to - view.from);
    view = next;
  }
  assert.ok(frames > 3 && frames < 40);
  const moved = windowBetween({ from: 0, to: 10 }, { from: 100, to: 110 }, 0.5);
  assert.ok(Math.abs(moved.from - 50) < 1e-6 && Math.abs(moved.to - 60) < 1e-6);
});

test('windows go to what they should show', () => {
  assert.deepEqual(panBy({ from: 10, to: 20 }, -100, 100), { from: 0, to: 10 });
  assert.deepEqual(windowAround(100, 200, 1000), { from: 75, to: 225 });
  assert.deepEqual(windowWith({ from: 0, to: 100 }, 20, 30, 1000), { from: 0, to: 100 });
  assert.deepEqual(windowWith({ from: 0, to: 100 }, 500, 510, 1000), { from: 455, to: 555 });
  assert.deepEqual(windowWith({ from: 0, to: 100 }, 500, 900, 1000), { from: 400, to: 1000 });
  // A hit of less than 6 pixels is zoomed in on, one of more is not, and an instant only so far.
  const all = { from: 0, to: 1_000_000_000 };
  assert.deepEqual(windowThatShows(all, 500_000_000, 500_100_000, 1e9, 1000), { from: 499_250_000, to: 500_850_000 });
  assert.equal(windowThatShows(all, 500_000_000, 510_000_000, 1e9, 1000), all);
  const near = windowThatShows(all, 500_000_000, 500_000_000, 1e9, 1000);
  assert.equal(near.to - near.from, 10_000);
  assert.equal(windowThatShows(near, 500_000_000, 500_000_000, 1e9, 1000), near);
});

test('an address without a sound window has none', () => {
  assert.deepEqual(windowFrom('5', '15', 100), { from: 5, to: 15 });
  for (const [from, to] of [[null, '5'], ['5', '5'], ['x', '7'], ['9', '5'], ['1', 'Infinity']] as const) assert.equal(windowFrom(from, to, 100), null);
});

test('the ruler has round marks with units', () => {
  assert.equal(rulerStep(1, 100), 100);
  assert.equal(rulerStep(1, 101), 200);
  assert.equal(rulerStep(0.0001, 100), 1);
  assert.equal(rulerText(1_500_000, 500_000), '1.5 ms');
  assert.equal(rulerText(2_000_000_000, 100_000_000), '2.0 s');
  assert.equal(rulerText(0, 200), '0 ns');
  assert.equal(rulerText(1_234_000, 1000), '1.234 ms');
});

test('a measurement keeps its digits', () => {
  assert.equal(exactly(5), '5 ns');
  assert.equal(exactly(131_070), '131.07 us');
  assert.equal(exactly(131_000), '131 us');
  assert.equal(exactly(1_500_000_000), '1.5 s');
});

test('the level has at least a pixel in a bucket', () => {
  assert.equal(levelOf(0.001), 0);
  assert.equal(levelOf(1), 0);
  assert.equal(levelOf(1.01), 1);
  assert.equal(levelOf(1024), 10);
  assert.equal(levelOfAll(1024), 0);
  assert.equal(levelOfAll(18.6e9), 25);
  assert.equal(tileBegin(3, 2), 2 * tileSpan(3));
  assert.equal(tileIndex(3, tileSpan(3) * 2 - 1), 1);
  assert.equal(groupOf(64), 1);
});

test('a tile is read in place, and a defective one is refused', () => {
  const tile = tileOf([[[7, 0, 4, 255]], [], [[8, 10, 1, 3], [NO_NAME, 20, 5, 9]]]);
  assert.equal(tile.lanes, 3);
  assert.deepEqual([...tile.start], [0, 1, 1, 3]);
  assert.deepEqual([...tile.name], [7, 8, NO_NAME]);
  assert.deepEqual([...tile.width], [4, 1, 5]);
  assert.deepEqual([...tile.fill], [255, 3, 9]);
  const bytes = bytesOf([[[7, 0, 4, 255]]]);
  assert.throws(() => decodeTile(bytes.slice(0, -1)), TileError);
  assert.throws(() => decodeTile(new ArrayBuffer(4)), TileError);
  const huge = bytes.slice(0);
  new Uint32Array(huge, 0, 1)[0] = 0xffffffff;
  assert.throws(() => decodeTile(huge), TileError);
  const disordered = bytesOf([[[1, 0, 1, 1]], [[2, 0, 1, 1]]]);
  new Uint32Array(disordered, 8, 3).set([2, 0, 2]);
  assert.throws(() => decodeTile(disordered), TileError);
});

test('a run is found by its bucket', () => {
  const tile = tileOf([[[1, 0, 4, 255], [2, 6, 2, 255]]]);
  assert.equal(runAt(tile, 0, 3), 0);
  assert.equal(runAt(tile, 0, 4), -1);
  assert.equal(runAt(tile, 0, 7), 1);
  assert.equal(runAfter(tile, 0, 5), 1);
  assert.equal(runAfter(tile, 0, 8), 2);
});

test('pixels show runs by colour and how busy they are', () => {
  const tile = tileOf([[[0, 0, 1, 255], [1, 4, 4, 0], [5, 1020, 4, 255]]]);
  const pixels = new Uint32Array(TILE_BUCKETS * 2).fill(0xdeadbeef);
  const isComplete = paintTile(tile, Uint32Array.of(0x0000ff, 0x00ff00), 0x777777, pixels);
  assert.equal(isComplete, false);
  assert.equal(pixels[0], 0xff0000ff);
  assert.equal(pixels[1], 0);
  assert.equal(pixels[5]! & 0xffffff, 0x00ff00);
  const faint = pixels[5]! >>> 24;
  assert.ok(faint > 60 && faint < 130, 'a bucket that is hardly busy stays visible');
  assert.ok(pixels[4]! >>> 24 < faint, 'the first bucket of a run is fainter');
  assert.equal(pixels[1023]! & 0xffffff, 0x777777);
  assert.equal(pixels[TILE_BUCKETS], 0xdeadbeef, 'only the rows of the tile are drawn');
  assert.equal(paintTile(tileOf([[[0, 0, 1, 255]]]), Uint32Array.of(1), 2, pixels), true);
});

test('the overview has the busiest run of each bucket', () => {
  const fill = new Uint8Array(TILE_BUCKETS);
  const name = new Uint32Array(TILE_BUCKETS);
  profileOf(tileOf([[[1, 0, 2, 100]], [[2, 1, 2, 200]]]), [0, 1], fill, name);
  assert.deepEqual([...fill.slice(0, 4)], [100, 200, 200, 0]);
  assert.deepEqual([...name.slice(0, 4)], [1, 2, 2, NO_NAME]);
  // An annotation over everything does not hide what is below it.
  profileOf(tileOf([[[7, 0, 4, 255]], [[2, 1, 2, 90]]]), [0, 1], fill, name, (each) => each !== 7);
  assert.deepEqual([...fill.slice(0, 4)], [0, 90, 90, 0]);
  assert.deepEqual([...name.slice(0, 4)], [NO_NAME, 2, 2, NO_NAME]);
});

test('edges snap to the nearest one, not to where a tile ends', () => {
  const placed = { runs: tileOf([[[1, 10, 10, 255], [2, 1000, 24, 255]]]), level: 2, index: 1 };
  const begin = tileSpan(2);
  assert.equal(nearestEdge(placed, 0, begin + 42, 5), begin + 40);
  assert.equal(nearestEdge(placed, 0, begin + 78, 5), begin + 80);
  assert.ok(Number.isNaN(nearestEdge(placed, 0, begin + 60, 5)));
  assert.ok(Number.isNaN(nearestEdge(placed, 0, begin + tileSpan(2) - 2, 5)));
  assert.deepEqual(ordered(5, 3), { from: 3, to: 5 });
});

// -- Tiles ------------------------------------------------------------------------------------------------------------

interface Asked {
  key: string;
  resolve: (tile: TileRuns) => void;
  reject: (error: unknown) => void;
  signal: AbortSignal;
}

function cacheOf(lanes = 100, root = 10) {
  const asked: Asked[] = [];
  const failures: unknown[] = [];
  let clock = 1000;
  const cache = new TileCache<null>(
    (level, index, first, last, signal) =>
      new Promise((resolve, reject) => {
        asked.push({ key: `${level}/${index} ${first}-${last}`, resolve, reject, signal });
        signal.addEventListener('abort', () => reject(new DOMException('', 'AbortError')));
      }),
    lanes,
    root,
    () => 1 << 20,
    () => {},
    (error) => failures.push(error),
    () => clock,
  );
  const settle = () => new Promise((resolve) => setTimeout(resolve, 0));
  const frame = (...wants: [number, number, number, 0 | 1 | 2][]) => {
    cache.beginFrame();
    for (const want of wants) cache.want(...want);
    cache.endFrame();
  };
  return { cache, asked, failures, frame, settle, wait: (ms: number) => (clock += ms) };
}

test('at most four tiles are on their way, those in view first', async () => {
  const { asked, frame, settle } = cacheOf();
  frame([5, 0, 9, 2], [5, 0, 8, 1], [5, 0, 1, 0], [5, 1, 1, 0], [5, 0, 2, 0], [5, 1, 2, 0]);
  assert.deepEqual(asked.map((each) => each.key), ['5/1 0-63', '5/1 64-99', '5/2 0-63', '5/2 64-99']);
  asked[0]!.resolve(tileOf([[]]));
  await settle();
  assert.equal(asked[4]!.key, '5/8 0-63');
});

test('what nobody wants any more is given up, and may be asked for again', async () => {
  const { cache, asked, frame, settle } = cacheOf();
  frame([5, 0, 1, 0]);
  frame([4, 0, 1, 0]);
  assert.ok(asked[0]!.signal.aborted);
  await settle();
  frame([5, 0, 1, 0], [4, 0, 1, 0]);
  assert.deepEqual(asked.map((each) => each.key), ['5/1 0-63', '4/1 0-63', '5/1 0-63']);
  asked[2]!.resolve(tileOf([[]]));
  await settle();
  assert.ok(cache.get(5, 0, 1));
  frame([5, 0, 1, 0]);
  assert.equal(asked.length, 3);
});

test('a coarser tile stands in for one that is missing', async () => {
  const { cache, asked, frame, settle } = cacheOf();
  frame([8, 0, 1, 0]);
  asked[0]!.resolve(tileOf([[]]));
  await settle();
  assert.equal(cache.ancestor(6, 0, 7)?.level, 8);
  assert.equal(cache.ancestor(6, 0, 3), null);
});

test('tiles beyond the trace are never asked for', () => {
  const { asked, frame } = cacheOf(100, 10);
  frame([11, 0, 0, 0], [10, 0, 1, 0], [5, 0, -1, 0], [5, 2, 0, 0], [-1, 0, 0, 0]);
  assert.deepEqual(asked, []);
});

test('a tile that failed is tried again after a while', async () => {
  const { asked, failures, frame, settle, wait } = cacheOf();
  frame([5, 0, 1, 0]);
  asked[0]!.reject(new Error('no'));
  await settle();
  frame([5, 0, 1, 0]);
  assert.equal(asked.length, 1);
  assert.equal(failures.length, 1);
  wait(2500);
  frame([5, 0, 1, 0]);
  assert.equal(asked.length, 2);
});

test('memory is bounded: the tiles that were not used for longest go, the whole trace stays', async () => {
  const { cache, asked, frame, settle } = cacheOf();
  frame([10, 0, 0, 0]);
  asked[0]!.resolve(tileOf([[]]));
  await settle();
  for (let i = 0; i < 80; i++) {
    frame([2, 0, i, 0]);
    asked[asked.length - 1]!.resolve(tileOf([[]]));
    await settle();
  }
  frame([2, 0, 79, 0]);
  assert.equal(cache.get(2, 0, 0), null);
  assert.ok(cache.get(2, 0, 79));
  assert.ok(cache.get(10, 0, 0));
});

test('tiles of the whole trace go too, where thousands of lanes have more of them than may be kept', async () => {
  const { cache, asked, frame, settle } = cacheOf(64 * 200);
  for (let group = 0; group < 200; group++) {
    frame([10, group, 0, 0], [10, 7, 0, 1]);
    for (const each of asked.splice(0)) each.resolve(tileOf([[]]));
    await settle();
  }
  frame([10, 199, 0, 0], [10, 7, 0, 1]);
  const kept = Array.from({ length: 200 }, (_, group) => cache.get(10, group, 0)).filter(Boolean).length;
  assert.ok(kept <= 48, `${kept} tiles of a MiB`);
  assert.ok(cache.get(10, 199, 0) && cache.get(10, 7, 0), 'in view, and of the overview');
});

// -- Names ------------------------------------------------------------------------------------------------------------

test('names arrive in blocks, once, with colours that fit their background', async () => {
  const asked: number[] = [];
  const names = new Names(
    3000,
    1024,
    async (block) => {
      asked.push(block);
      return { first: block * 1024, names: [['gemm_128', 'gemm'], ['relu', '']] as [string, string][] };
    },
    () => {},
  );
  const tile = tileOf([[[0, 0, 1, 255], [1025, 2, 1, 255], [NO_NAME, 4, 1, 255]]]);
  names.need(tile);
  names.need(tile);
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.deepEqual(asked, [0, 1]);
  assert.equal(names.text(1025), 'relu');
  assert.ok(names.colors[0]! > 0 && names.version === 2);
  const before = names.colors[0];
  names.highlight('RELU');
  assert.notEqual(names.colors[0], before);
  names.highlight('');
  assert.equal(names.colors[0], before);
});

test('pixels have the bytes of colours in order', () => {
  assert.equal(pixelOf('#102030'), 0x302010);
  assert.notEqual(pixelOf('#000000'), 0);
  assert.ok(isBright(pixelOf('#ffee00')) && !isBright(pixelOf('#202080')));
  assert.equal(shade(pixelOf('#808080'), 'a'), shade(pixelOf('#808080'), 'a'));
});

test('labels leave out templates and arguments', () => {
  assert.equal(shortName('void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)'), 'vectorized_elementwise_kernel');
  assert.equal(shortName('aten::add'), 'aten::add');
  assert.equal(shortName('<built-in method run of Tensor object at 0x7f>'), '<built-in method run of Tensor object at 0x7f>');
});

// -- Tracks -----------------------------------------------------------------------------------------------------------

const track = (number: number, kind: Track['kind'], title: string, lane: number, lanes: number): Track => ({ track: number, kind, title, lane, lanes, slices: 1, busy_ns: 1 });
const head: TimelineHead = {
  trace: 't1',
  sum: 'x',
  length_ns: 1000,
  slices: 3,
  names: 1,
  name_block: 1024,
  tracks: [track(0, 'gpu', 'GPU 0 stream 7', 61, 2), track(1, 'thread', 'main 12345', 0, 3), track(2, 'python', 'main', 3, 58)],
  lanes: 63,
  counters: [{ track: 9, title: 'queue', min: 0, max: 5, samples: 10 }],
};
const chosen = (choices: Partial<Choices> = {}): Choices => ({ tracks: {}, order: [], ...choices });

test('GPUs come first, Python is folded', () => {
  const layout = layoutOf(head, chosen());
  assert.deepEqual(layout.bands.map((band) => band.title), ['GPU 0 stream 7', 'queue', 'main 12345', 'main']);
  assert.deepEqual(layout.bands.map((band) => band.open), [true, true, true, false]);
  assert.equal(layout.bands[0]!.height, 2 * ROW);
  assert.equal(layout.bands[3]!.height, 58 * ROW_FOLDED);
  assert.equal(layout.byLane(60)?.title, 'main');
  assert.equal(layout.byLane(62)?.title, 'GPU 0 stream 7');
});

test('the lane at a height is found, folded, pinned and scrolled', () => {
  const layout = layoutOf(head, chosen({ tracks: { [trackKey('python', 'main')]: { pinned: true } } }));
  assert.equal(bandAt(layout, 3 * ROW_FOLDED + 1, 500)?.lane, 3 + 3);
  const gpu = layout.bands.find((band) => band.track?.kind === 'gpu')!;
  assert.equal(bandAt(layout, layout.pinnedHeight + gpu.y + ROW + 1, 0)?.lane, 62);
  assert.equal(bandAt(layout, layout.pinnedHeight + gpu.y + ROW + 1 - 10, 10)?.lane, 62);
});

test('tracks are hidden, moved and remembered by names without numbers of threads', () => {
  assert.equal(trackKey('thread', 'main 12345'), trackKey('thread', 'main 54321'));
  const hidden = layoutOf(head, chosen({ tracks: { [trackKey('thread', 'main 1111')]: { hidden: true } } }));
  assert.deepEqual(hidden.hidden.map((band) => band.title), ['main 12345']);
  assert.equal(hidden.byLane(0), null);
  const layout = layoutOf(head, chosen());
  const order = orderAfterMove(layout, layout.bands[2]!.key, -1);
  assert.deepEqual(layoutOf(head, chosen({ order })).bands.map((band) => band.title), ['GPU 0 stream 7', 'main 12345', 'queue', 'main']);
  assert.deepEqual(orderAfterMove(layout, layout.bands[0]!.key, -1), []);
});

// -- Areas ------------------------------------------------------------------------------------------------------------

test('ranges of lanes that touch are one, and there are never too many', () => {
  assert.deepEqual(joinRanges([[5, 9], [0, 4], [20, 21]]), [[0, 9], [20, 21]]);
  const many = Array.from({ length: 30 }, (_, i): [number, number] => [i * 10, i * 10 + 1]);
  const joined = joinRanges(many);
  assert.equal(joined.length, 8);
  for (const [from, to] of many) assert.ok(joined.some(([a, b]) => a <= from && to <= b));
});

test('numbers of several ranges are added up by name', () => {
  const row = (name: string, count: number, sum: number, min: number, max: number): SelectionRow => ({ name, category: '', class: '', count, sum, mean: sum / count, min, max, self: sum });
  const part = (rows: SelectionRow[]) => ({ from: 0, to: 9, count: rows.reduce((n, each) => n + each.count, 0), busy: 5, rows, more: false });
  const merged = mergeSelections(0, 9, [part([row('a', 2, 10, 4, 6)]), part([row('b', 1, 50, 50, 50), row('a', 2, 30, 1, 29)])]);
  assert.equal(merged.count, 5);
  assert.deepEqual(merged.rows.map((each) => each.name), ['b', 'a']);
  assert.deepEqual([merged.rows[1]!.count, merged.rows[1]!.mean, merged.rows[1]!.min, merged.rows[1]!.max], [4, 10, 1, 29]);
});

// SPDX-License-Identifier: Apache-2.0
// Trees of flame graphs: widths, search, tables and differences add up.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { around, briefName, byName, compared, type FlameAnswer, folded, nameOf, pathTo, search, summed, treeOf, visible } from '../../../web/src/icicle';

// main(100) -> work(60) -> work(20), copy(30); idle(40) -> copy(5)
const ANSWER: FlameAnswer = {
  unit: 'ns',
  names: ['main', 'work', 'copy', 'idle'],
  nodes: [
    [-1, 0, 100, 0, 1],
    [0, 1, 60, 10, 3],
    [1, 1, 20, 20, 2],
    [1, 2, 30, 30, 4],
    [0, 3, 40, 35, 1],
    [4, 2, 5, 5, 1],
  ],
};

test('frames lie within their parents, the widest first', () => {
  const tree = treeOf(ANSWER);
  assert.equal(tree.total[0], 100);
  assert.equal(tree.depths, 4);
  for (let i = 1; i < tree.parent.length; i++) {
    const above = tree.parent[i]!;
    assert.ok(tree.left[i]! >= tree.left[above]! && tree.left[i]! + tree.total[i]! <= tree.left[above]! + tree.total[above]!);
  }
  const boxes = visible(tree, 0, 1000);
  assert.equal(boxes.find((box) => nameOf(tree, box.frame) === 'idle')!.x, 600);
  assert.equal(boxes.length, 7);
});

test('a frame in focus is as wide as the picture, with what is around it', () => {
  const tree = treeOf(ANSWER);
  const work = 2;
  const boxes = visible(tree, work, 600);
  assert.deepEqual(
    boxes.slice(0, 3).map((box) => [nameOf(tree, box.frame), box.row, box.x, box.width]),
    [
      ['all', 0, 0, 600],
      ['main', 1, 0, 600],
      ['work', 2, 0, 600],
    ],
  );
  assert.ok(!boxes.some((box) => nameOf(tree, box.frame) === 'idle'));
  assert.equal(visible(tree, 0, 50, 4).length, 6, 'frames of less than four pixels are left out');
  assert.deepEqual(pathTo(tree, 3), [0, 1, 2, 3]);
});

test('a search counts a match within a match once', () => {
  const tree = treeOf(ANSWER);
  assert.equal(search(tree, 'WORK').total, 60);
  assert.equal(search(tree, 'work').frames.size, 2);
  assert.equal(search(tree, 'copy').total, 35);
  assert.equal(search(tree, '').total, 0);
  assert.equal(search(tree, 'nothing').frames.size, 0);
});

test('self times of all names add up to the graph, and recursion counts once in totals', () => {
  const tree = treeOf(ANSWER);
  const rows = byName(tree);
  assert.equal(
    rows.reduce((sum, row) => sum + row.self, 0),
    100,
  );
  assert.deepEqual(
    rows.map((row) => [row.name, row.self, row.total, row.count]),
    [
      ['idle', 35, 40, 1],
      ['copy', 35, 35, 5],
      ['work', 30, 60, 5],
      ['main', 0, 100, 1],
    ],
  );
});

test('a difference has widths of after, and times of before', () => {
  const before = treeOf(ANSWER);
  const after = treeOf({
    unit: 'ns',
    names: ['copy', 'main', 'fresh'],
    nodes: [
      [-1, 1, 90, 0, 1],
      [0, 2, 70, 70, 1],
      [0, 0, 20, 20, 1],
    ],
  });
  const both = compared(before, after);
  assert.equal(both.total[0], 90);
  assert.equal(both.before![0], 100);
  const rows = new Map(byName(both).map((row) => [row.name, [row.before, row.total]]));
  assert.deepEqual(rows.get('fresh'), [0, 70]);
  assert.deepEqual(rows.get('work'), [60, 0]);
  assert.deepEqual(rows.get('main'), [100, 90]);
  assert.deepEqual(rows.get('copy'), [35, 20]);
  // What is gone has no width.
  assert.ok(!visible(both, 0, 1000).some((box) => nameOf(both, box.frame) === 'work'));
});

test('graphs of several hosts become one, frame by frame', () => {
  const other: FlameAnswer = { unit: 'ns', names: ['idle', 'main', 'new'], nodes: [[-1, 1, 50, 10, 2], [0, 0, 30, 30, 1], [0, 2, 10, 10, 5], [-1, 2, 7, 7, 1]] };
  const sum = treeOf(summed([ANSWER, other]));
  assert.equal(sum.total[0], 157);
  const rows = new Map(byName(sum).map((row) => [row.name, row.total]));
  assert.deepEqual([rows.get('main'), rows.get('idle'), rows.get('new'), rows.get('work')], [150, 70, 17, 60]);
  assert.deepEqual(summed([ANSWER]), ANSWER);
  const half = summed([ANSWER, ANSWER], 2);
  assert.deepEqual(half, ANSWER);
  assert.deepEqual(summed([]), { unit: 'ns', names: [], nodes: [] });
});

test('an answer that is no tree makes no circle', () => {
  const tree = treeOf({ unit: 'ns', names: ['a'], nodes: [[1, 0, 5, 5, 1], [0, 0, 5, 5, 1], [2, 0, 1, 1, 1], [77, 9, 1, 1, 1]] });
  assert.ok(pathTo(tree, 4).length <= 3);
  assert.equal(nameOf(tree, 4), '');
  assert.ok(visible(tree, 0, 100).length <= 5);
});

test('a large tree is laid out at once', () => {
  const nodes: FlameAnswer['nodes'] = [[-1, 0, 1e9, 0, 1]];
  for (let i = 1; i < 20_000; i++) nodes.push([i % 50 === 0 ? 0 : i - 1, i % 300, 1e9 / i, 1, 1]);
  const tree = treeOf({ unit: 'ns', names: Array.from({ length: 300 }, (_, i) => `frame ${i}`), nodes });
  assert.ok(visible(tree, 0, 1500).length < 20_001);
  assert.equal(byName(tree).length, 300);
});

test('names of C++ functions are brief where there is little room', () => {
  const brief: Record<string, string> = {
    'void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)': 'vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)',
    'deep_ep::internode_ll::combine<3, 10>(void*)': 'combine<3, 10>(void*)',
    'void (anonymous namespace)::copy<int>()': '(anonymous namespace)::copy<int>()',
    'aten::linear': 'aten::linear',
    'nn.Module: Linear_3': 'nn.Module: Linear_3',
    'torch/nn/modules/linear.py(116): forward': 'linear.py(116): forward',
    '<string>(1): <module>': '<string>(1): <module>',
    '<built-in method matmul>': '<built-in method matmul>',
    'Memcpy HtoD (Pageable -> Device)': 'Memcpy HtoD (Pageable -> Device)',
    '': '',
  };
  for (const [name, expected] of Object.entries(brief)) assert.equal(briefName(name), expected);
});

test('callers and callees of a name are those of all of its frames', () => {
  const named = (answer: FlameAnswer) => answer.nodes.map(([parent, name, total, self]) => [parent, answer.names[name], total, self]);
  // The inner work is within the outer one: its time counts once.
  assert.deepEqual(named(around(ANSWER, 'work', 'callees')), [[-1, 'work', 60, 10], [0, 'work', 20, 20], [0, 'copy', 30, 30]]);
  assert.deepEqual(named(around(ANSWER, 'work', 'callers')), [[-1, 'work', 60, 0], [0, 'main', 60, 60]]);
  assert.deepEqual(named(around(ANSWER, 'copy', 'callers')), [[-1, 'copy', 35, 0], [0, 'work', 30, 0], [1, 'main', 30, 30], [0, 'idle', 5, 0], [3, 'main', 5, 5]]);
  assert.deepEqual(named(around(ANSWER, 'main', 'callers')), [[-1, 'main', 100, 100]]);
  assert.deepEqual(around(ANSWER, 'nobody', 'callers').nodes, []);
  // A hostile answer has no circles.
  assert.deepEqual(named(around({ unit: 'ns', names: ['a'], nodes: [[0, 0, 1, 1, 1]] }, 'a', 'callers')), [[-1, 'a', 1, 1]]);
});

test('stacks as text have the time of each frame that has time of its own', () => {
  assert.equal(folded(ANSWER), 'main;work 10\nmain;work;work 20\nmain;work;copy 30\nmain;idle 35\nmain;idle;copy 5\n');
  assert.equal(folded({ unit: 'ns', names: ['a;b\nc 7'], nodes: [[-1, 0, 3, 3, 1]] }), 'a:b c 7 3\n');
});

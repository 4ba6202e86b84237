// SPDX-License-Identifier: Apache-2.0
// A flame graph as an icicle: a tree from its root down, what of it is in view, what a search finds, and two trees laid
// over one another. Pure: components/icicle_canvas.tsx draws it.

// GET /v1/traces/{trace}/flame. A node is [parent, name, total, self, count], its parent before it, -1 for roots.
export interface FlameAnswer {
  unit: string;
  names: string[];
  nodes: [number, number, number, number, number][];
}

// Arrays of one number for each frame; frame 0 is the root, of which all roots of the answer are children.
export interface Tree {
  names: string[];
  parent: Int32Array;
  name: Int32Array; // -1 for the root
  depth: Int32Array;
  total: Float64Array;
  self: Float64Array;
  count: Float64Array;
  before: Float64Array | null; // totals of the tree that this one is compared with
  left: Float64Array; // where a frame begins, in the unit of totals, from the left edge of the root
  children: number[][]; // the widest first
  depths: number; // rows
}

function place(tree: Tree): Tree {
  const n = tree.parent.length;
  const children: number[][] = Array.from({ length: n }, () => []);
  for (let i = 1; i < n; i++) children[tree.parent[i]!]!.push(i);
  for (let i = 0; i < n; i++) {
    const list = children[i]!;
    list.sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
    let x = tree.left[i]!;
    for (const child of list) {
      tree.left[child] = x;
      x += tree.total[child]!;
    }
  }
  tree.children = children;
  tree.depths = n === 0 ? 0 : Math.max(...chunked(tree.depth)) + 1;
  return tree;
}

// Math.max(...) takes no arrays of any length.
function* chunked(values: Int32Array): Generator<number> {
  for (let i = 0; i < values.length; i += 4096) yield Math.max(...values.subarray(i, i + 4096));
}

export function treeOf(answer: FlameAnswer): Tree {
  const n = answer.nodes.length + 1;
  const tree: Tree = {
    names: answer.names,
    parent: new Int32Array(n),
    name: new Int32Array(n).fill(-1),
    depth: new Int32Array(n),
    total: new Float64Array(n),
    self: new Float64Array(n),
    count: new Float64Array(n),
    before: null,
    left: new Float64Array(n),
    children: [],
    depths: 0,
  };
  tree.parent[0] = -1;
  answer.nodes.forEach(([parent, name, total, self, count], i) => {
    const at = i + 1;
    // A parent that does not come before its child would make a circle.
    const above = parent >= 0 && parent < i ? parent + 1 : 0;
    tree.parent[at] = above;
    tree.name[at] = name;
    tree.depth[at] = tree.depth[above]! + 1;
    tree.total[at] = total;
    tree.self[at] = self;
    tree.count[at] = count;
    if (above === 0) tree.total[0]! += total;
  });
  return place(tree);
}

// The sum of several graphs, each frame divided by `parts` of it: frames of the same names from the root down are one.
export function summed(answers: readonly FlameAnswer[], parts = 1): FlameAnswer {
  const sum: FlameAnswer = { unit: answers[0]?.unit ?? 'ns', names: [], nodes: [] };
  const numbers = new Map<string, number>();
  const known = new Map<string, number>();
  const name = (text: string): number => {
    let number = numbers.get(text);
    if (number === undefined) numbers.set(text, (number = sum.names.push(text) - 1));
    return number;
  };
  for (const { names, nodes } of answers) {
    const at: number[] = [];
    nodes.forEach(([parent, of, total, self, count], i) => {
      const above = parent >= 0 && parent < i ? at[parent]! : -1;
      const number = name(names[of] ?? '');
      const key = `${above} ${number}`;
      let found = known.get(key);
      if (found === undefined) known.set(key, (found = sum.nodes.push([above, number, 0, 0, 0]) - 1));
      const node = sum.nodes[found]!;
      node[2] += total / parts;
      node[3] += self / parts;
      node[4] += count / parts;
      at.push(found);
    });
  }
  return sum;
}

// A line for each stack that has time of its own, "main;work;copy 30", as speedscope and flamegraph.pl read it.
export function folded(answer: FlameAnswer): string {
  const clean = answer.names.map((name) => name.replace(/;/g, ':').replace(/[\u0000-\u001f\u007f]+/g, ' '));
  const stacks: string[] = [];
  let text = '';
  answer.nodes.forEach(([parent, name, , self], i) => {
    const above = parent >= 0 && parent < i ? stacks[parent]! + ';' : '';
    stacks.push(above + (clean[name] ?? ''));
    if (self > 0) text += `${stacks[i]!} ${Math.round(self)}\n`;
  });
  return text;
}

export type AroundSide = 'callers' | 'callees';

// All that calls frames of a name, or that they call: one graph with the name as its root. Of frames within frames of the
// name only the outermost counts, so that no time counts twice.
export function around(answer: FlameAnswer, name: string, side: AroundSide): FlameAnswer {
  const { names, nodes } = answer;
  const graph: FlameAnswer = { unit: answer.unit, names, nodes: [] };
  const known = new Map<string, number>();
  const add = (above: number, of: number, total: number, self: number, count: number): number => {
    const key = `${above} ${of}`;
    let at = known.get(key);
    if (at === undefined) known.set(key, (at = graph.nodes.push([above, of, 0, 0, 0]) - 1));
    const node = graph.nodes[at]!;
    node[2] += total;
    node[3] += self;
    node[4] += count;
    return at;
  };
  const within = new Int32Array(nodes.length).fill(-1); // the node of the new graph, of those in a frame of the name
  nodes.forEach(([parent, of, total, self, count], i) => {
    const above = parent >= 0 && parent < i ? within[parent]! : -1;
    if (above >= 0) within[i] = side === 'callees' ? add(above, of, total, self, count) : 0;
    else if (names[of] === name) {
      within[i] = 0;
      const isRoot = side === 'callers' && (parent < 0 || parent >= i);
      add(-1, of, total, side === 'callees' ? self : isRoot ? total : 0, count);
      if (side === 'callees') return;
      for (let [at, caller] = [0, parent]; caller >= 0 && caller < i; ) {
        const next = nodes[caller]![0];
        const isLast = next < 0 || next >= caller;
        at = add(at, nodes[caller]![1], total, isLast ? total : 0, count);
        if (isLast) break;
        caller = next;
      }
    }
  });
  return graph;
}

// `after` over `before`: frames of the same names from the root down are one. Widths are those of `after`; a frame that is
// gone has none, and its time is in the figures of what was around it.
export function compared(before: Tree, after: Tree): Tree {
  const names = [...after.names];
  const numbers = new Map(names.map((name, i) => [name, i]));
  const parent: number[] = [...after.parent];
  const name: number[] = [...after.name];
  const depth: number[] = [...after.depth];
  const total: number[] = [...after.total];
  const self: number[] = [...after.self];
  const count: number[] = [...after.count];
  const earlier: number[] = new Array<number>(total.length).fill(0);
  const known = new Map<string, number>();
  for (let i = 1; i < parent.length; i++) known.set(`${parent[i]} ${name[i]}`, i);
  const at = new Int32Array(before.parent.length);
  earlier[0] = before.total[0]!;
  for (let i = 1; i < before.parent.length; i++) {
    const text = before.names[before.name[i]!] ?? '';
    let number = numbers.get(text);
    if (number === undefined) {
      number = names.length;
      names.push(text);
      numbers.set(text, number);
    }
    const above = at[before.parent[i]!]!;
    const key = `${above} ${number}`;
    let found = known.get(key);
    if (found === undefined) {
      found = parent.length;
      parent.push(above);
      name.push(number);
      depth.push(depth[above]! + 1);
      total.push(0);
      self.push(0);
      count.push(0);
      earlier.push(0);
      known.set(key, found);
    }
    earlier[found]! += before.total[i]!;
    at[i] = found;
  }
  return place({
    names,
    parent: Int32Array.from(parent),
    name: Int32Array.from(name),
    depth: Int32Array.from(depth),
    total: Float64Array.from(total),
    self: Float64Array.from(self),
    count: Float64Array.from(count),
    before: Float64Array.from(earlier),
    left: new Float64Array(parent.length),
    children: [],
    depths: 0,
  });
}

export function nameOf(tree: Tree, frame: number): string {
  return frame === 0 ? 'all' : (tree.names[tree.name[frame]!] ?? '');
}

// What tells names apart where there is little room: of a C++ function without what it returns and its namespaces, of one in
// Python without the folders of its file, which many share.
export function briefName(name: string): string {
  const python = /^[^ ]*\/([^ /]+\.py\(\d+\): .*)$/.exec(name);
  if (python) return python[1]!;
  const bare = name.replace(/^(?:void|static|inline|auto) +/, '');
  const mark = bare.search(/[<(]/);
  if (mark < 1) return bare;
  const scope = bare.lastIndexOf('::', mark);
  return scope > 0 && !bare.slice(0, scope).includes(' ') ? bare.slice(scope + 2) : bare;
}

// From the root to the frame, both included.
export function pathTo(tree: Tree, frame: number): number[] {
  const path: number[] = [];
  for (let i = frame; i >= 0; i = tree.parent[i]!) path.unshift(i);
  return path;
}

export interface Box {
  frame: number;
  row: number;
  x: number; // pixels
  width: number;
}

// What is drawn of the tree while `focus` has the complete width: the frames around it, as wide as the picture, and those
// below it that are at least `least` pixels wide. Narrower neighbours are left out: the row shows its background there.
export function visible(tree: Tree, focus: number, width: number, least = 0.5): Box[] {
  const boxes: Box[] = pathTo(tree, focus).map((frame, row) => ({ frame, row, x: 0, width }));
  const scale = width / (tree.total[focus]! || 1);
  const origin = tree.left[focus]!;
  const waiting = [focus];
  while (waiting.length > 0) {
    const frame = waiting.pop()!;
    for (const child of tree.children[frame]!) {
      const wide = tree.total[child]! * scale;
      if (wide < least) break; // children are in order of their widths
      boxes.push({ frame: child, row: tree.depth[child]!, x: (tree.left[child]! - origin) * scale, width: wide });
      waiting.push(child);
    }
  }
  return boxes;
}

// Frames whose name has the text, in any case of letters, and the time that they cover together: a match within a match
// counts once.
export function search(tree: Tree, text: string): { frames: Set<number>; total: number } {
  const frames = new Set<number>();
  const wanted = text.toLowerCase();
  if (wanted === '') return { frames, total: 0 };
  const matching = tree.names.map((name) => name.toLowerCase().includes(wanted));
  const covered = new Uint8Array(tree.parent.length);
  let total = 0;
  const queue = [0];
  for (let i = 0; i < queue.length; i++) {
    const frame = queue[i]!;
    const matches = frame > 0 && matching[tree.name[frame]!] === true;
    const above = frame > 0 && covered[tree.parent[frame]!] === 1;
    if (matches) frames.add(frame);
    if (matches && !above) total += tree.total[frame]!;
    covered[frame] = matches || above ? 1 : 0;
    for (const child of tree.children[frame]!) queue.push(child);
  }
  return { frames, total };
}

export interface NameRow {
  name: string;
  self: number;
  total: number; // recursion counts once
  count: number;
  before: number | null; // total of the tree compared with
  widest: number; // the frame to show
}

// Figures by name: self times add up to the time of the graph.
export function byName(tree: Tree): NameRow[] {
  const rows = new Map<number, NameRow>();
  // How often each name is open on the way down.
  const open = new Map<number, number>();
  const waiting: [number, boolean][] = [...tree.children[0]!].reverse().map((frame) => [frame, true]);
  while (waiting.length > 0) {
    const [frame, enters] = waiting.pop()!;
    const name = tree.name[frame]!;
    const depth = open.get(name) ?? 0;
    if (!enters) {
      open.set(name, depth - 1);
      continue;
    }
    let row = rows.get(name);
    if (!row) {
      row = { name: nameOf(tree, frame), self: 0, total: 0, count: 0, before: tree.before ? 0 : null, widest: frame };
      rows.set(name, row);
    }
    row.self += tree.self[frame]!;
    row.count += tree.count[frame]!;
    if (depth === 0) {
      row.total += tree.total[frame]!;
      if (row.before !== null) row.before += tree.before![frame]!;
    }
    if (tree.total[frame]! > tree.total[row.widest]!) row.widest = frame;
    open.set(name, depth + 1);
    waiting.push([frame, false]);
    for (const child of tree.children[frame]!) waiting.push([child, true]);
  }
  return [...rows.values()].sort((a, b) => b.self - a.self || b.total - a.total);
}

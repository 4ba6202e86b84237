// SPDX-License-Identifier: Apache-2.0
// Names of slices by their numbers, in blocks that are asked for when a tile first needs one, and their colours as pixels.

import { colorOf } from '../colors';
import { NO_NAME, type TileRuns } from './decode';

// 0x00BBGGRR of '#rrggbb', as a little-endian pixel has it. Never 0, which stands for a colour that is not known.
export function pixelOf(color: string): number {
  const value = Number.parseInt(color.slice(1), 16);
  return (((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) || 0x010101;
}

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

// The colour of a slice in a timeline. Kernels of no class in particular are told apart by their names.
export function sliceColor(name: string, kind: string): string {
  return colorOf(name, kind === 'other' ? '' : kind);
}

// A little lighter or darker by name: kernels of one class stay apart.
export function shade(pixel: number, name: string): number {
  const factor = 0.88 + (hash(name) % 25) / 100;
  const part = (value: number) => Math.min(255, Math.round((value & 0xff) * factor));
  return (part(pixel) | (part(pixel >> 8) << 8) | (part(pixel >> 16) << 16)) || 0x010101;
}

// Black or white, whichever reads better on the colour.
export function isBright(pixel: number): boolean {
  return 0.299 * (pixel & 0xff) + 0.587 * ((pixel >> 8) & 0xff) + 0.114 * ((pixel >> 16) & 0xff) > 118;
}

// Templates, arguments and the return type left out: 'void at::native::foo<4>(int)' is 'foo'. For labels.
export function shortName(name: string): string {
  if (name.length < 24) return name;
  let text = name.replace(/^(void|static|auto) /, '');
  const cut = text.search(/[<(]/);
  if (cut > 0) text = text.slice(0, cut);
  const space = text.indexOf('::') > 0 ? text.slice(text.lastIndexOf('::') + 2) : text;
  return space || name;
}

export class Names {
  readonly texts: string[] = [];
  readonly classes: string[] = [];
  readonly shorts: string[] = [];
  colors: Uint32Array;
  version = 0; // grows when names arrive
  epoch = 0; // grows when the colours of all names change
  private readonly blocks = new Set<number>();
  private match = '';

  constructor(
    private readonly count: number,
    private readonly block: number,
    private readonly load: (block: number) => Promise<{ first: number; names: [string, string][] }>,
    private readonly changed: () => void,
  ) {
    this.colors = new Uint32Array(Math.min(count, 1 << 24));
  }

  // Asks for the blocks of all names of the tile.
  need(runs: TileRuns): void {
    let last = -1;
    for (let i = 0; i < runs.name.length; i++) {
      const name = runs.name[i]!;
      if (name === NO_NAME || name >= this.count) continue;
      const block = Math.floor(name / this.block);
      if (block !== last && !this.blocks.has(block)) this.ask(block);
      last = block;
    }
  }

  // The first block, which most traces need no other of, at once instead of after the first tile.
  prefetch(): void {
    if (this.count > 0 && !this.blocks.has(0)) this.ask(0);
  }

  private ask(block: number): void {
    this.blocks.add(block);
    this.load(block).then(
      ({ first, names }) => {
        for (let i = 0; i < names.length; i++) {
          const [text, kind] = names[i]!;
          this.texts[first + i] = text;
          this.classes[first + i] = kind;
          this.shorts[first + i] = shortName(text);
          this.paint(first + i);
        }
        this.version++;
        this.changed();
      },
      () => setTimeout(() => this.blocks.delete(block), 2000),
    );
  }

  private paint(name: number): void {
    const text = this.texts[name]!;
    const kind = this.classes[name]!;
    if (name >= this.colors.length) return;
    const isDim = this.match !== '' && !text.toLowerCase().includes(this.match);
    const color = shade(pixelOf(sliceColor(text, kind)), text);
    this.colors[name] = isDim ? dim(color) : color;
  }

  // Names without the text are drawn faintly; '' ends it.
  highlight(match: string): void {
    const wanted = match.toLowerCase();
    if (wanted === this.match) return;
    this.match = wanted;
    for (const name in this.texts) this.paint(Number(name));
    this.epoch++;
    this.changed();
  }

  text(name: number): string {
    return this.texts[name] ?? '';
  }
}

// Grey with a trace of the colour.
function dim(pixel: number): number {
  const part = (value: number) => Math.round(0.12 * (value & 0xff) + 0.88 * 140);
  return part(pixel) | (part(pixel >> 8) << 8) | (part(pixel >> 16) << 16);
}

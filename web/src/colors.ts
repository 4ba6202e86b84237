// SPDX-License-Identifier: Apache-2.0
// Colours of kernel classes and names, the same in every view, for canvases and for elements. They read well on both
// backgrounds; red is kept for what costs time.

// By class of kernel (trace/reports): what a kernel does.
const CLASSES: Record<string, string> = {
  gemm: '#4f8ff7',
  attention: '#a678f0',
  communication: '#f0a13a',
  moe: '#2fb3a3',
  norm: '#6fbf5b',
  activation: '#9ccc3c',
  rope: '#5cc5e8',
  quant: '#c98b5e',
  kv_cache: '#7d83e8',
  sampling: '#d77ad0',
  sort: '#b58bd6',
  embedding: '#58b98a',
  convolution: '#3f79c9',
  reduction: '#b0a352',
  elementwise: '#7fa99b',
  triton: '#6f9fd8',
  copy: '#93a1b5',
  optimizer: '#c7a0e0',
  memory: '#a8b0bf',
  other: '#8c95a3',
};

// For classes and names that have no colour of their own: hues that stay away from red.
const HUES = [205, 265, 165, 40, 95, 285, 185, 60, 225, 145, 310, 120];

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

function hslToHex(h: number, s: number, l: number): string {
  const a = s * Math.min(l, 1 - l);
  const part = (n: number) => {
    const k = (n + h / 30) % 12;
    return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))))
      .toString(16)
      .padStart(2, '0');
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

const cache = new Map<string, string>();

// '#rrggbb' of a slice's class, or of its name where it has none.
export function colorOf(name: string, kind = ''): string {
  const known = CLASSES[kind];
  if (known) return known;
  const key = kind || name;
  let found = cache.get(key);
  if (!found) {
    const h = hash(key);
    found = hslToHex(HUES[h % HUES.length]!, 0.45 + ((h >> 8) % 20) / 100, 0.56 + ((h >> 16) % 12) / 100);
    cache.set(key, found);
  }
  return found;
}

// A colour of style.css ('--text', '--accent', ...) as it is now, for canvases.
export function themeColor(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

// SPDX-License-Identifier: Apache-2.0
// Colours of the page for canvases, read once for each theme.

import { themeColor } from '../colors';

export interface Palette {
  back: string;
  panel: string;
  line: string;
  lineStrong: string;
  text: string;
  muted: string;
  accent: string;
  accentSoft: string;
  red: string;
  fill: string;
  raised: string;
  font: string; // family
}

export function readPalette(): Palette {
  return {
    back: themeColor('--back'),
    panel: themeColor('--panel'),
    line: themeColor('--line'),
    lineStrong: themeColor('--line-strong'),
    text: themeColor('--text'),
    muted: themeColor('--muted'),
    accent: themeColor('--accent'),
    accentSoft: themeColor('--accent-soft'),
    red: themeColor('--red'),
    fill: themeColor('--fill'),
    raised: themeColor('--raised'),
    font: themeColor('--font') || 'sans-serif',
  };
}

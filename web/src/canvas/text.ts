// SPDX-License-Identifier: Apache-2.0
// Texts in boxes of a canvas: cut to the width that there is. Widths and cut texts are kept, because each frame asks again.

const CUTS_MAX = 20_000;

export class BoxTexts {
  private readonly widths = new Map<string, number>();
  private readonly cuts = new Map<string, string[]>();
  private count = 0;

  // The text, a shorter one with an ellipsis, or '' where not even two letters have room. The font is that of the context.
  fit(g: CanvasRenderingContext2D, text: string, room: number): string {
    let width = this.widths.get(text);
    if (width === undefined) this.widths.set(text, (width = g.measureText(text).width));
    if (width <= room) return text;
    const letters = Math.floor((text.length * room) / width) - 1;
    if (letters < 2) return '';
    let cuts = this.cuts.get(text);
    if (!cuts) this.cuts.set(text, (cuts = []));
    let cut = cuts[letters];
    if (cut === undefined) {
      cut = cuts[letters] = text.slice(0, letters) + '…';
      if (++this.count > CUTS_MAX) this.forget();
    }
    return cut;
  }

  forget(): void {
    this.widths.clear();
    this.cuts.clear();
    this.count = 0;
  }
}

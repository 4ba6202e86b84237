// SPDX-License-Identifier: Apache-2.0
// A canvas that is as large as its element, in device pixels, and is drawn once for each frame in which something changed.
// The owner draws in CSS pixels; it decides whether another frame follows.

type Draw = (g: CanvasRenderingContext2D, width: number, height: number, ratio: number, now: number) => boolean;

// A higher ratio costs time and memory and shows no more.
const RATIO_MAX = 2;

export class Surface {
  width = 0;
  height = 0;
  ratio = 1;
  frames = 0;
  private readonly context: CanvasRenderingContext2D;
  private readonly observer: ResizeObserver;
  private request = 0;
  private readonly frame: FrameRequestCallback;

  constructor(
    readonly canvas: HTMLCanvasElement,
    draw: Draw,
  ) {
    this.context = canvas.getContext('2d', { alpha: false })!;
    this.frame = (now) => {
      if (this.request !== 0) cancelAnimationFrame(this.request);
      this.request = 0;
      if (this.width === 0 || this.height === 0) return;
      this.frames++;
      this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      if (draw(this.context, this.width, this.height, this.ratio, now)) this.invalidate();
    };
    this.observer = new ResizeObserver(() => {
      // A canvas of another size is empty: drawn in this frame, so that it does not flash.
      if (this.resize()) this.frame(performance.now());
    });
    this.observer.observe(canvas);
    this.resize();
    this.invalidate();
  }

  invalidate(): void {
    if (this.request === 0) this.request = requestAnimationFrame(this.frame);
  }

  private resize(): boolean {
    const ratio = Math.min(devicePixelRatio || 1, RATIO_MAX);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === this.width && height === this.height && ratio === this.ratio) return false;
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    return true;
  }

  close(): void {
    this.observer.disconnect();
    if (this.request !== 0) cancelAnimationFrame(this.request);
    this.request = 0;
    this.width = 0;
  }
}

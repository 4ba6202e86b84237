// SPDX-License-Identifier: Apache-2.0
// What people do to a canvas, by mouse, touchpad and touch, in words: pan, zoom, click, an area. Positions are CSS pixels
// within the element. A wheel scrolls, with Ctrl (and by a pinch on a touchpad) it zooms, with Shift it pans; dragging
// selects an area, with Shift or the middle button it pans; one finger pans, two zoom.

interface GestureHandlers {
  hover?(x: number, y: number): void;
  leave?(): void;
  click?(x: number, y: number, event: PointerEvent): void;
  double?(x: number, y: number): void;
  // What a drag that begins there does. Default: an area.
  dragKind?(x: number, y: number, event: PointerEvent): 'area' | 'pan';
  area?(x0: number, y0: number, x1: number, y1: number, phase: 'begin' | 'move' | 'end'): void;
  pan?(dx: number, dy: number): void;
  scroll?(dy: number): void;
  zoom?(x: number, factor: number, y: number): void;
}

const DRAG_FROM = 4;
const LINE = 18; // pixels of a wheel that counts lines
const ZOOM_BY_PIXEL = 0.0025;
const WHEEL_MAX = 240;

interface Touch {
  x: number;
  y: number;
}

// Returns what ends it.
export function listenToGestures(element: HTMLElement, handlers: GestureHandlers): () => void {
  const pointers = new Map<number, Touch>();
  let down: { x: number; y: number; kind: 'area' | 'pan'; dragging: boolean } | null = null;
  let pinch = 0; // distance of two fingers

  const placeOf = (event: MouseEvent): Touch => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = () => {
    const [a, b] = [...pointers.values()] as [Touch, Touch];
    return { distance: Math.max(Math.hypot(a.x - b.x, a.y - b.y), 10), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  };
  let middle: Touch | null = null;

  const pressed = (event: PointerEvent) => {
    if (event.button > 1) return;
    const place = placeOf(event);
    pointers.set(event.pointerId, place);
    element.setPointerCapture(event.pointerId);
    if (event.button === 1) event.preventDefault();
    if (pointers.size === 2) {
      const now = spread();
      pinch = now.distance;
      middle = now;
      if (down?.dragging && down.kind === 'area') handlers.area?.(down.x, down.y, down.x, down.y, 'end');
      down = null;
      return;
    }
    const isPan = event.button === 1 || event.shiftKey || event.pointerType === 'touch';
    down = { ...place, kind: isPan ? 'pan' : (handlers.dragKind?.(place.x, place.y, event) ?? 'area'), dragging: false };
  };

  const moved = (event: PointerEvent) => {
    const place = placeOf(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      handlers.hover?.(place.x, place.y);
      return;
    }
    pointers.set(event.pointerId, place);
    if (pointers.size === 2) {
      const now = spread();
      handlers.zoom?.(now.x, pinch / now.distance, now.y);
      if (middle) handlers.pan?.(now.x - middle.x, now.y - middle.y);
      pinch = now.distance;
      middle = now;
      return;
    }
    if (!down) return;
    if (!down.dragging) {
      if (Math.hypot(place.x - down.x, place.y - down.y) < DRAG_FROM) return;
      down.dragging = true;
      if (down.kind === 'area') handlers.area?.(down.x, down.y, place.x, place.y, 'begin');
      else handlers.pan?.(place.x - down.x, place.y - down.y);
      return;
    }
    if (down.kind === 'area') handlers.area?.(down.x, down.y, place.x, place.y, 'move');
    else handlers.pan?.(place.x - before.x, place.y - before.y);
  };

  const released = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId)) return;
    middle = null;
    if (!down) return;
    const place = placeOf(event);
    const was = down;
    down = null;
    if (was.dragging && was.kind === 'area') handlers.area?.(was.x, was.y, place.x, place.y, 'end');
    else if (!was.dragging && event.type === 'pointerup' && event.button === 0) handlers.click?.(place.x, place.y, event);
  };

  const wheeled = (event: WheelEvent) => {
    const place = placeOf(event);
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : event.deltaMode === WheelEvent.DOM_DELTA_PAGE ? 400 : 1;
    const dx = event.deltaX * unit;
    const dy = event.deltaY * unit;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) {
      handlers.zoom?.(place.x, Math.exp(Math.max(-WHEEL_MAX, Math.min(WHEEL_MAX, dy)) * ZOOM_BY_PIXEL), place.y);
    } else if (event.shiftKey) {
      handlers.pan?.(-(dx || dy), 0);
    } else {
      if (Math.abs(dx) > Math.abs(dy)) handlers.pan?.(-dx, 0);
      else handlers.scroll?.(dy);
    }
  };

  const doubled = (event: MouseEvent) => {
    const place = placeOf(event);
    handlers.double?.(place.x, place.y);
  };
  const left = () => handlers.leave?.();

  element.addEventListener('pointerdown', pressed);
  element.addEventListener('pointermove', moved);
  element.addEventListener('pointerup', released);
  element.addEventListener('pointercancel', released);
  element.addEventListener('pointerleave', left);
  element.addEventListener('wheel', wheeled, { passive: false });
  element.addEventListener('dblclick', doubled);
  return () => {
    element.removeEventListener('pointerdown', pressed);
    element.removeEventListener('pointermove', moved);
    element.removeEventListener('pointerup', released);
    element.removeEventListener('pointercancel', released);
    element.removeEventListener('pointerleave', left);
    element.removeEventListener('wheel', wheeled);
    element.removeEventListener('dblclick', doubled);
  };
}

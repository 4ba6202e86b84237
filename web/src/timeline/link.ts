// SPDX-License-Identifier: Apache-2.0
// Timelines that move together: each shows the same span, with its own origin at the same place.

import type { TimelinePicture } from './picture';
import type { Step } from './source';
import { windowAt } from './view';

export class TimelineLink {
  private readonly members = new Map<TimelinePicture, number>();
  enabled = true;

  // `origin` is the time of this trace that lies where the origins of the others lie. Returns what ends it.
  join(picture: TimelinePicture, origin: number): () => void {
    this.members.set(picture, origin);
    return () => this.members.delete(picture);
  }

  // To be called with each window that a user chose in one of them.
  moved(by: TimelinePicture): void {
    const mine = this.members.get(by);
    if (mine === undefined || !this.enabled) return;
    const { from, to } = by.view;
    for (const [other, origin] of this.members) {
      if (other !== by) other.setView(windowAt(from - mine + origin, to - from, other.length));
    }
  }
}

// The step of each that the other has, too: by its label, else the first.
export function commonSteps(a: readonly Step[], b: readonly Step[]): [Step | null, Step | null] {
  for (const step of a) {
    const other = b.find((each) => each.label === step.label);
    if (other) return [step, other];
  }
  return [a[0] ?? null, b[0] ?? null];
}

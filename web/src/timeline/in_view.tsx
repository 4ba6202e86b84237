// SPDX-License-Identifier: Apache-2.0
// What the canvas shows, as a table: for screen readers, for copying, for the browser's own search.

import { moment } from '../units';
import { drawnDuration } from './lanes';
import type { TimelinePicture } from './picture';

const IN_VIEW_MAX = 300;

export interface InViewRow {
  key: string;
  track: string;
  name: string;
  begin: number;
  dur: number;
  begins: boolean; // false: before the picture
  lasts: string;
  lane: number;
}

export function rowsInView(picture: TimelinePicture): InViewRow[] {
  return picture.lanes.visibleRuns(IN_VIEW_MAX).map(({ band, run }) => ({
    key: `${run.lane}/${run.from}`,
    track: band.title,
    name: picture.lanes.names.text(run.name),
    begin: run.from,
    dur: run.to - run.from,
    begins: run.begins,
    lasts: drawnDuration(run),
    lane: run.lane,
  }));
}

export function InView({ rows, shown, onPick }: { rows: InViewRow[]; shown: boolean; onPick: (row: InViewRow) => void }) {
  return (
    <section class={shown ? 'in-view' : 'in-view unseen'} aria-label="In view" tabIndex={shown ? 0 : -1}>
      <table>
        <caption>Slices in view, as exact as the picture{rows.length >= IN_VIEW_MAX ? `; the first ${IN_VIEW_MAX}` : ''}</caption>
        <thead>
          <tr>
            <th scope="col">Track</th>
            <th scope="col">Name</th>
            <th scope="col" class="numeric">
              Begin
            </th>
            <th scope="col" class="numeric">
              Duration
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              <td>{row.track}</td>
              <td>
                {shown ? (
                  <button type="button" class="link" onClick={() => onPick(row)}>
                    {row.name}
                  </button>
                ) : (
                  row.name
                )}
              </td>
              <td class="numeric">{(row.begins ? '' : 'before ') + moment(row.begin, Math.max(row.dur / 10, 1))}</td>
              <td class="numeric">{row.lasts}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

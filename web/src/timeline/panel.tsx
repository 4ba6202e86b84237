// SPDX-License-Identifier: Apache-2.0
// All about the selected slice: how long, launched by whom, inside of what, among others of its name.

import type { SliceRef } from '../types';
import { count, duration, moment } from '../units';
import { arrowsOf } from './overlay';
import { sliceColor } from './names';
import type { SliceDetail } from './source';

interface PanelProps {
  slice: SliceDetail;
  onGo: (ref: SliceRef) => void;
  onZoom: () => void;
  onSearch: (name: string) => void;
}

// How a slice compares with others of its name: 'longer than 97 % of the other 4,099'.
function rankText(same: NonNullable<SliceDetail['same']>): string {
  if (same.count < 2) return 'the only one of its name';
  return `longer than ${Math.round((100 * same.rank) / (same.count - 1))} % of the other ${count(same.count - 1)}`;
}

function Link({ to, onGo, children }: { to: SliceRef; onGo: (ref: SliceRef) => void; children?: string }) {
  return (
    <button type="button" class="link slice-link" title={to.name} onClick={() => onGo(to)}>
      {children ?? to.name}
    </button>
  );
}

// What lies around a slice, the innermost first.
function Parents({ title, of, onGo }: { title: string; of: readonly SliceRef[]; onGo: (ref: SliceRef) => void }) {
  if (of.length === 0) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ol class="slice-parents">
        {of.map((parent) => (
          <li key={parent.slice}>
            <Link to={parent} onGo={onGo} />
            <small>{parent.dur < 0 ? '' : duration(parent.dur)}</small>
          </li>
        ))}
      </ol>
    </div>
  );
}

// A gap since before its parent began is no gap: the parent was there meanwhile.
function hasGap(slice: SliceDetail): boolean {
  const parent = slice.parents[0];
  return slice.gap_before_ns !== undefined && (!parent || slice.begin - slice.gap_before_ns >= parent.begin);
}

function argText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function SlicePanel({ slice, onGo, onZoom, onSearch }: PanelProps) {
  const { same, launch, launched = [], parents } = slice;
  const flows = arrowsOf(slice).filter((arrow) => arrow.other.slice !== launch?.slice && !launched.some((each) => each.slice === arrow.other.slice));
  const args = Object.entries(slice.args ?? {});
  return (
    <section class="slice" aria-label="Selected slice">
      <header>
        <i class="dot" aria-hidden="true" style={{ background: sliceColor(slice.name, slice.class) }} />
        <h2 title={slice.name}>{slice.name}</h2>
        <b>{slice.dur < 0 ? 'unfinished' : duration(slice.dur)}</b>
        {same && <span class="muted">{rankText(same)}</span>}
        <span class="slice-actions">
          <button type="button" class="quiet" onClick={onZoom} title="f">
            Zoom to it
          </button>
          <button type="button" class="quiet" onClick={() => onSearch(slice.name)}>
            Search its name
          </button>
        </span>
      </header>
      <div class="slice-parts">
        <dl>
          <dt>Begin</dt>
          <dd>{moment(slice.begin, 1)}</dd>
          {slice.dur >= 0 && slice.self !== slice.dur && (
            <>
              <dt>Self time</dt>
              <dd>{duration(slice.self)}</dd>
            </>
          )}
          <dt>Track</dt>
          <dd>
            {slice.title}
            {slice.depth > 0 && `, depth ${slice.depth}`}
          </dd>
          {(slice.class || slice.category) && (
            <>
              <dt>Category</dt>
              <dd>{[slice.class, slice.category].filter(Boolean).join(', ')}</dd>
            </>
          )}
          {hasGap(slice) && (
            <>
              <dt>Gap before</dt>
              <dd>{slice.gap_before_ns! > 0 ? duration(slice.gap_before_ns!) : 'none'}</dd>
            </>
          )}
          {launch && (
            <>
              <dt>Launched by</dt>
              <dd>
                <Link to={launch} onGo={onGo} />
                {launch.delay_ns !== undefined && `, ${duration(launch.delay_ns)} before`}
              </dd>
            </>
          )}
          {launched.length > 0 && (
            <>
              <dt>Launched</dt>
              <dd>
                {launched.slice(0, 8).map((each) => (
                  <Link key={each.slice} to={each} onGo={onGo} />
                ))}
                {launched.length > 8 && `and ${launched.length - 8} more`}
              </dd>
            </>
          )}
          {flows.length > 0 && (
            <>
              <dt>Arrows</dt>
              <dd>
                {flows.slice(0, 8).map((arrow) => (
                  <Link key={arrow.other.slice} to={arrow.other} onGo={onGo}>
                    {(arrow.to === slice ? 'from ' : 'to ') + arrow.other.name}
                  </Link>
                ))}
              </dd>
            </>
          )}
        </dl>
        <Parents title="Inside" of={parents} onGo={onGo} />
        <Parents title="Launched from" of={launch?.parents ?? []} onGo={onGo} />
        {same && same.count > 1 && (
          <div>
            <h3>All {count(same.count)} of this name</h3>
            <dl>
              <dt>Sum</dt>
              <dd>{duration(same.sum)}</dd>
              <dt>Mean</dt>
              <dd>{duration(same.sum / same.count)}</dd>
              <dt>Shortest</dt>
              <dd>{duration(same.min)}</dd>
              <dt>Longest</dt>
              <dd>{duration(same.max)}</dd>
            </dl>
            <p class="slice-same">
              <button type="button" disabled={!same.previous} onClick={() => same.previous && onGo(same.previous)}>
                <kbd>p</kbd> Previous
              </button>
              <button type="button" disabled={!same.next} onClick={() => same.next && onGo(same.next)}>
                <kbd>n</kbd> Next
              </button>
            </p>
          </div>
        )}
        {args.length > 0 && (
          <div class="slice-args">
            <h3>Arguments</h3>
            <dl>
              {args.map(([name, value]) => (
                <>
                  <dt key={name}>{name}</dt>
                  <dd class="mono">{argText(value)}</dd>
                </>
              ))}
            </dl>
          </div>
        )}
      </div>
    </section>
  );
}

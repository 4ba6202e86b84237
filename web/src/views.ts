// SPDX-License-Identifier: Apache-2.0
// All views of the page: one line each. A new view is a file in views/ and its line here.

import type { ComponentType } from 'preact';
import { Compare } from './views/compare';
import { Flame } from './views/flame';
import { FleetView } from './views/fleet';
import { Ranks } from './views/ranks';
import { RunView } from './views/run';
import { Runs } from './views/runs';
import { SessionView } from './views/session';
import { Sessions } from './views/sessions';
import { Sql } from './views/sql';
import { Timeline } from './views/timeline';
import { TraceView } from './views/trace';
import { Traces } from './views/traces';
import { TwoTimelines } from './views/two_timelines';

export interface View {
  path: string; // parts that begin with ':' are passed to the component
  title: string; // {trace} is replaced by the part of that name
  key?: string; // goes there after g; views with a key are in the navigation
  section?: string; // which entry of the navigation is marked
  wide?: boolean; // uses the complete window: the component scrolls by itself
  component: ComponentType<{ parts: Record<string, string> }>;
}

export type ViewProps = { parts: Record<string, string> };

export const views: View[] = [
  { path: '/', title: 'Fleet', key: 'f', component: FleetView },
  { path: '/sessions', title: 'Sessions', key: 's', component: Sessions },
  { path: '/sessions/:session', title: 'Session {session}', section: '/sessions', component: SessionView },
  { path: '/sessions/:session/ranks', title: 'Ranks {session}', section: '/sessions', wide: true, component: Ranks },
  { path: '/traces', title: 'Traces', key: 't', component: Traces },
  { path: '/traces/:trace', title: 'Trace {trace}', section: '/traces', component: TraceView },
  { path: '/traces/:trace/timeline', title: 'Timeline {trace}', section: '/traces', wide: true, component: Timeline },
  { path: '/traces/:trace/flame', title: 'Flame graph {trace}', section: '/traces', wide: true, component: Flame },
  { path: '/runs', title: 'Benchmark runs', key: 'r', component: Runs },
  { path: '/runs/:run', title: 'Benchmark run {run}', section: '/runs', component: RunView },
  { path: '/ranks', title: 'Ranks', section: '/traces', wide: true, component: Ranks },
  { path: '/compare', title: 'Compare', key: 'c', component: Compare },
  { path: '/compare/timelines', title: 'Two timelines', section: '/compare', wide: true, component: TwoTimelines },
  { path: '/sql', title: 'SQL', key: 'q', component: Sql },
];

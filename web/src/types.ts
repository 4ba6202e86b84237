// SPDX-License-Identifier: Apache-2.0
// Answers of profd's HTTP API (proto/openapi.yaml), as far as the page reads them. Wall-clock times (`*_at`) are
// nanoseconds since the epoch: a Number keeps them to a microsecond. Times in a trace are nanoseconds after its first slice.

export type Role = 'read' | 'operate' | 'admin' | 'peer';

export interface Me {
  user: string;
  role: Role;
  expires_at?: number;
  perfetto: string;
  version: string;
  host: string;
}

export type Labels = Record<string, string>;

export interface Remark {
  refuses: boolean;
  option?: string;
  worker?: string;
  text: string;
  remedy?: string;
}

type SessionState =
  | 'requested'
  | 'starting'
  | 'recording'
  | 'stopping'
  | 'collecting'
  | 'complete'
  | 'partial'
  | 'failed'
  | 'cancelled';

export interface Target {
  target: number;
  worker: string;
  name?: string;
  node?: string;
  engine?: string;
  version?: string;
  role?: string;
  model?: string;
  state: string;
  ranks_expected?: number;
  host?: string;
  stop_pending?: boolean;
  start_sent_at?: number;
  start_answered_at?: number;
  stop_sent_at?: number;
  stop_answered_at?: number;
  failure?: string;
  remedy?: string;
  traces?: string[];
  bytes?: number;
  bytes_seen?: number;
  silence?: string;
  silent_since?: number;
}

export interface Session {
  session: string;
  state: SessionState;
  router?: string;
  dialect?: string;
  fleet?: string;
  options?: Record<string, unknown>;
  labels?: Labels;
  requested_at: number;
  requested_by: string;
  starts_sent_at?: number;
  recording_at?: number;
  stop_at?: number;
  stopped_at?: number;
  finished_at?: number;
  skew_ns?: number;
  skew_error_ns?: number;
  reason?: string;
  remedy?: string;
  waiting_for?: string;
  pinned?: boolean;
  counts: Record<string, number>;
  remarks?: Remark[];
  run?: number;
  name?: string;
  skipped?: { worker: string; reason: string; remedy?: string }[] | number;
  coordinator_name?: string;
  targets?: Target[];
}

export interface Ranks {
  rank?: number;
  dp?: number;
  pp?: number;
  tp?: number;
  ep?: number;
}

export interface Trace {
  trace: string;
  session?: string;
  worker?: string;
  kind: string;
  state: string;
  reason?: string;
  name: string;
  origin?: string; // where the file was
  stored: boolean;
  size: number;
  format?: string;
  ranks?: Ranks;
  stage?: string;
  instance?: string;
  devices?: number;
  device_name?: string;
  span_ns?: number;
  first_event_at?: number;
  recorded_at?: number;
  collected_at?: number;
  labels?: Labels;
  columns?: string;
  columns_reason?: string;
  slices?: number;
  gpu_slices?: number;
  threads?: number;
  defects?: { kind: string; count: number; text: string }[];
  pinned?: boolean;
  archived_at?: number;
  host?: string;
  host_uuid?: string; // of another host that keeps it
  world_size?: number;
  columns_size?: number;
}

export interface Run {
  run: number;
  session?: number;
  state: string;
  router?: string;
  fleet?: string;
  model?: string;
  workload: Record<string, unknown>;
  labels: Labels;
  requested_at: number;
  requested_by: string;
  started_at?: number;
  ended_at?: number;
  reason?: string;
  remedy?: string;
  requests: { success: number; incomplete: number; error: number };
  metrics?: Record<string, unknown>;
  throughput?: Record<string, number>;
  goodput?: Record<string, number> | null;
  pinned?: boolean;
}

// GET /v1/traces/{trace}/reports/{report} and POST /v1/reports
export interface Report {
  report: string;
  columns: string[];
  rows: (string | number | null)[][];
}

export interface FleetWorker {
  worker: string;
  fleet?: string; // its name, where it has one
  host?: string;
  engine: string;
  version?: string;
  role: string;
  model?: string;
  state: 'ok' | 'down' | 'unprofilable';
  detail?: string;
  remedy?: string;
  running?: number;
  waiting?: number;
  kv_use?: number; // 0 to 1
  ttft_p50_ns?: number;
  tokens_per_s?: number;
  busy_session?: string;
}

export interface Fleet {
  fleet?: string; // name of its section in profd.conf
  router?: string;
  dialect?: string;
  state: 'ok' | 'unreachable';
  detail?: string;
  remedy?: string;
}

export interface Odd {
  worker?: string;
  kind: string;
  what: string;
  remedy?: string;
  since_at: number;
}

// Events of /v1/fleet/events
export interface FleetState {
  at: number;
  fleets: Fleet[];
  workers: FleetWorker[];
  odd: Odd[];
  left_out?: { fleets?: number; workers?: number };
}

export interface Usage {
  traces: number;
  bytes: number;
  max_use?: number;
  free?: number;
}

// A slice of a timeline, as answers name it.
export interface SliceRef {
  slice: number;
  name: string;
  begin: number;
  dur: number; // -1: unfinished
  lane: number;
}

-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 4 to 5: sessions made of ingested files, the workers that a session left out, and the order in which
-- the disk budget takes traces: by when profd collected them, which no file can lie about; the engine instance of a trace.

alter table session_row add column name text;
alter table session_row add column skipped text check (skipped is null or json_valid(skipped));
create unique index session_name on session_row (name) where name is not null;

drop view sessions;
create view sessions as
    select s.session_id, s.state, r.url as router, s.dialect, s.fleet, s.options, s.labels, s.requested_at,
           s.requested_by, s.start_at, s.starts_sent_at, s.recording_at, s.stop_at, s.hard_stop_at, s.stopped_at,
           s.finished_at, s.skew_ns, s.reason, s.remedy, s.pinned, s.remarks, s.name, s.skipped
    from session_row s left join router_row r using (router_id);

drop index trace_evictable;
create index trace_evictable on trace_row (collected_at) where (stored = 1 or columns is not null) and pinned = 0;
create index trace_pinned on trace_row (trace_id) where pinned = 1;
create index session_pinned on session_row (session_id) where pinned = 1;

alter table trace_row add column instance text;

drop view traces;
create view traces as
    select t.trace_id, t.session_id, t.target_id, w.url as worker, t.kind, t.state, t.reason, t.name, t.path, t.origin,
           t.stored, t.size, t.sha256, t.format, t.uncompressed, t.rank, t.dp, t.pp, t.tp, t.ep, t.stage, t.world_size, t.pid, t.devices,
           t.device_name, t.events, t.first_event_at, t.span_ns, t.candidates, t.owner_uid, t.recorded_at, t.collected_at,
           t.pinned, t.labels, t.last_event_at, t.columns, t.columns_size, t.columns_version, t.columns_reason, t.slices,
           t.gpu_slices, t.threads, t.flows, t.instance
    from trace_row t left join worker_row w using (worker_id);

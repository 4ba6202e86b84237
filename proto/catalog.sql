-- SPDX-License-Identifier: Apache-2.0
--
-- The catalog of profd: recordings, their workers, and their results. This file is the schema at user_version 7.
-- It also completes a catalog of an older version, from which daemon/catalog/migrate.c has dropped everything but the tables.
--
-- Public are the views at the end (routers, workers, sessions, targets, traces, trace_names, trace_categories, trace_defects,
-- runs, requests, functions, events): their columns keep name and meaning.
-- The tables behind them (named *_row) may change between versions.
--
-- Times are integer nanoseconds since the Unix epoch, in columns named *_at; durations *_ns; sizes are bytes.
-- application_id is 'PROF' (0x50524f46), journal mode WAL.

create table if not exists router_row (
    router_id    integer primary key,
    url          text not null unique,
    dialect      text not null,
    fleet        text,                          -- section of profd.conf
    first_seen_at integer not null,
    last_seen_at integer not null,
    last_used_at integer                        -- by a session; the newest is the default of profctl start
) strict;

create table if not exists worker_row (
    worker_id    integer primary key,
    url          text not null unique,
    router_id    integer references router_row (router_id) on delete set null,
    engine       text not null,                 -- vllm, sglang, unknown
    version      text,
    role         text not null,                 -- regular, prefill, decode, encode, unknown
    health       text not null,                 -- healthy, unhealthy, unknown
    model        text,
    profilable   integer not null,              -- 0 or 1
    reason       text,                          -- why it cannot be profiled
    remedy       text,
    trace_dir    text,                          -- as the worker names it
    last_seen_at integer not null
) strict;
create index worker_router on worker_row (router_id);

create table if not exists session_row (
    session_id   integer primary key autoincrement,
    state        text not null check (state in ('requested', 'starting', 'recording', 'stopping', 'collecting',
                                                'complete', 'partial', 'failed', 'cancelled')),
    router_id    integer references router_row (router_id) on delete set null,
    dialect      text,                          -- of the router, or static
    fleet        text,                          -- section of profd.conf
    options      text not null check (json_valid(options)),   -- the request, as the API received it
    labels       text not null default '{}' check (json_valid(labels)),
    requested_at integer not null,
    requested_by text not null,                 -- "uid 1000 (anna)", "127.0.0.1"
    start_at     integer,                       -- planned
    starts_sent_at integer,                     -- when the last start had left
    recording_at integer,                       -- when the last start was answered
    stop_at      integer,                       -- planned: the deadline of the recording
    hard_stop_at integer,                       -- the latest time at which profd stops it
    stopped_at   integer,                       -- when the last stop was answered
    finished_at  integer,
    skew_ns      integer,                       -- between the first and the last start that left
    reason       text,
    remedy       text,
    pinned       integer not null default 0,
    remarks      text check (remarks is null or json_valid(remarks)),  -- remarks of profd: [{refuses, option, worker, text, remedy}]
    name         text,                          -- of a session made of ingested files
    skipped      text check (skipped is null or json_valid(skipped)),  -- workers that were skipped: [{worker, reason, remedy}]
    begun_at     integer,                       -- before the first start left: no file of it is older
    boot_id      text,                          -- of the kernel by whose CLOCK_BOOTTIME these are:
    begun_boot_ns integer,                      -- begun_at
    stop_boot_ns integer,                       -- stop_at
    hard_stop_boot_ns integer                   -- hard_stop_at
) strict;
create unique index session_name on session_row (name) where name is not null;
create index session_state on session_row (state);
create index session_router on session_row (router_id);
create index session_pinned on session_row (session_id) where pinned = 1;

create table if not exists target_row (
    target_id    integer primary key autoincrement,
    session_id   integer not null references session_row (session_id) on delete cascade,
    worker_id    integer not null references worker_row (worker_id),
    state        text not null check (state in ('requested', 'starting', 'recording', 'stopping', 'collecting',
                                                'complete', 'partial', 'failed', 'cancelled')),
    worker       text not null check (json_valid(worker)),    -- the worker as known at the start; extracted from it:
    engine       text generated always as (json_extract(worker, '$.engine')) stored,
    version      text generated always as (json_extract(worker, '$.version')) stored,
    role         text generated always as (json_extract(worker, '$.role')) stored,
    profile_id   text not null,
    output_dir   text,                          -- as the worker names it, where profd chose one
    trace_dir    text,                          -- where profd looks for its files
    ranks_expected integer not null,
    stop_pending integer not null default 0,    -- a start may have reached it and no stop was answered
    start_sent_at integer,
    start_answered_at integer,
    start_status integer,                       -- HTTP
    stop_sent_at integer,
    stop_answered_at integer,
    stop_status  integer,
    failure      text,                          -- what failed, with the HTTP status and an excerpt of the answer
    remedy       text,
    unique (session_id, worker_id)
) strict;
create index target_worker on target_row (worker_id, session_id);
create index target_session on target_row (session_id, state);  -- counts states of a session without reading its wide rows

create table if not exists trace_row (
    trace_id     integer primary key autoincrement,
    session_id   integer references session_row (session_id) on delete cascade,   -- null: of no session
    target_id    integer references target_row (target_id) on delete set null,
    worker_id    integer references worker_row (worker_id),                        -- null: unknown or ambiguous
    kind         text not null check (kind in ('trace', 'frontend', 'attachment')),
    state        text not null check (state in ('complete', 'truncated', 'empty', 'corrupt', 'unreadable', 'duplicate',
                                                'missing')),
    reason       text,
    name         text not null,                 -- the file's own name
    path         text not null unique,          -- in the store, or in place when referenced
    origin       text not null,                 -- where the worker wrote it
    stored       integer not null,              -- 1: a file of the store; 0: left in place
    size         integer not null,
    sha256       text,
    format       text,                          -- kineto, chrome, nsys-sqlite, ...
    uncompressed integer,
    rank         integer,                       -- position in the worker's parallel groups; null unknown
    dp           integer,
    pp           integer,
    tp           integer,
    ep           integer,
    stage        text,                          -- prefill, decode where recorded by stage
    world_size   integer,
    pid          integer,
    devices      integer,
    device_name  text,
    events       integer,                       -- timed events seen while checking
    first_event_at integer,
    span_ns      integer,
    candidates   text check (candidates is null or json_valid(candidates)),  -- workers it may be of, when ambiguous
    owner_uid    integer,
    recorded_at  integer not null,              -- when the file was finished by its writer
    collected_at integer not null,
    pinned       integer not null default 0,
    labels       text not null default '{}' check (json_valid(labels)),
    last_event_at integer,
    columns      text,                          -- the columnar file; in the store even where the trace is not
    columns_size integer,
    columns_version integer,                    -- of the reader that last tried; null: not tried yet
    columns_reason text,                        -- why there are none
    slices       integer,
    gpu_slices   integer,
    threads      integer,
    flows        integer,
    defects      text check (defects is null or json_valid(defects)),  -- defects found: [{kind, count, offset, text}]
    device       integer,                       -- st_dev and st_ino of the file that was read, where the worker wrote it
    inode        integer,
    process_started integer,                    -- start of the process whose root the path leads through, in its own unit
    instance     text,                          -- engine instance that its rank is of, within its session
    disk_size    integer not null default 0,    -- bytes that its file in the store takes on the disk, without holes
    -- The share of the store in which it counts: > 0 a user; < 0 a worker, where the owner identifies no user (root, nobody); 0 neither.
    holder       integer generated always as (case when owner_uid is null or owner_uid in (0, 65534)
                                              then -coalesce(worker_id, 0) else owner_uid end) virtual
) strict;
create index trace_recorded on trace_row (recorded_at);
create index trace_session on trace_row (session_id, recorded_at, trace_id, size, disk_size);   -- sizes: for the sum
create index trace_target on trace_row (target_id) where target_id is not null;
create index trace_worker on trace_row (worker_id, recorded_at);
create index trace_origin on trace_row (origin);
create index trace_evictable on trace_row (collected_at, trace_id, holder) where (stored = 1 or columns is not null) and pinned = 0;
create index trace_holder on trace_row (holder, collected_at, trace_id) where (stored = 1 or columns is not null) and pinned = 0;
create index trace_pinned on trace_row (trace_id) where pinned = 1;
create index trace_sha256 on trace_row (sha256) where sha256 is not null;

-- Texts that many traces share.
create table if not exists name_row (
    name_id      integer primary key,
    name         text not null unique
) strict;

-- Of each trace the names with the largest total time, for GPU events and the rest; category '' is none.
create table if not exists trace_name_row (
    trace_id     integer not null references trace_row (trace_id) on delete cascade,
    category     text not null,
    name_id      integer not null references name_row (name_id),
    count        integer not null,
    sum_ns       integer not null,
    min_ns       integer,
    max_ns       integer,
    primary key (trace_id, category, name_id)
) strict, without rowid;
create index trace_name_name on trace_name_row (name_id);
create trigger name_unused after delete on trace_name_row
    when not exists (select 1 from trace_name_row where name_id = old.name_id) begin
    delete from name_row where name_id = old.name_id;
end;

create table if not exists trace_category_row (
    trace_id     integer not null references trace_row (trace_id) on delete cascade,
    category     text not null,
    count        integer not null,
    sum_ns       integer not null,
    primary key (trace_id, category)
) strict, without rowid;

-- One row: usage of the store, kept up to date by triggers so that a query costs nothing.
create table if not exists usage_row (
    one          integer primary key check (one = 1),
    traces       integer not null,
    bytes        integer not null
) strict;
insert or ignore into usage_row values (1, 0, 0);
-- The same for each holder that has traces.
create table if not exists holder_row (
    holder       integer primary key,
    traces       integer not null,
    bytes        integer not null
) strict;
insert or ignore into holder_row (holder, traces, bytes)    -- of a catalog that had no such table
    select holder, count(*), sum(disk_size * stored + coalesce(columns_size, 0)) from trace_row group by holder;
create trigger trace_added after insert on trace_row begin
    update usage_row set traces = traces + 1, bytes = bytes + new.disk_size * new.stored + coalesce(new.columns_size, 0);
    insert into holder_row (holder, traces, bytes)
        values (new.holder, 1, new.disk_size * new.stored + coalesce(new.columns_size, 0))
        on conflict (holder) do update set traces = traces + 1, bytes = bytes + excluded.bytes;
end;
create trigger trace_removed after delete on trace_row begin
    update usage_row set traces = traces - 1, bytes = bytes - old.disk_size * old.stored - coalesce(old.columns_size, 0);
    update holder_row set traces = traces - 1, bytes = bytes - old.disk_size * old.stored - coalesce(old.columns_size, 0)
        where holder = old.holder;
    delete from holder_row where holder = old.holder and traces = 0;
end;
create trigger trace_resized after update of disk_size, stored, columns_size, owner_uid, worker_id on trace_row begin
    update usage_row set bytes = bytes + new.disk_size * new.stored + coalesce(new.columns_size, 0)
                                       - old.disk_size * old.stored - coalesce(old.columns_size, 0);
    update holder_row set traces = traces - 1, bytes = bytes - old.disk_size * old.stored - coalesce(old.columns_size, 0)
        where holder = old.holder;
    insert into holder_row (holder, traces, bytes)
        values (new.holder, 1, new.disk_size * new.stored + coalesce(new.columns_size, 0))
        on conflict (holder) do update set traces = traces + 1, bytes = bytes + excluded.bytes;
    delete from holder_row where holder = old.holder and traces = 0;
end;

-- Original files of removed traces: they are not collected again.
create table if not exists removed_row (
    removed_id   integer primary key autoincrement,
    origin       text not null unique,
    size         integer not null,
    recorded_at  integer not null,
    inode        integer,                       -- null: not known
    removed_at   integer not null
) strict;
create trigger trace_remembered after delete on trace_row begin
    insert or replace into removed_row (origin, size, recorded_at, inode, removed_at)
        values (old.origin, old.size, old.recorded_at, old.inode, unixepoch() * 1000000000);
end;

-- One benchmark run. Its summary, except the counts, is one object: docs/workload.md.
create table if not exists run_row (
    run_id       integer primary key autoincrement,
    session_id   integer references session_row (session_id) on delete set null,   -- that recorded during the run
    state        text not null check (state in ('requested', 'warming', 'loading', 'draining', 'complete', 'partial',
                                                'failed', 'cancelled')),
    router_id    integer references router_row (router_id) on delete set null,
    dialect      text,                          -- of the router, or static
    fleet        text,                          -- section of profd.conf
    model        text,
    workload     text not null check (json_valid(workload)),
    targets      text not null check (json_valid(targets)),   -- endpoints of the requests: [{url, engine}]
    labels       text not null default '{}' check (json_valid(labels)),
    requested_at integer not null,
    requested_by text not null,
    started_at   integer,                       -- the first intended request
    ended_at     integer,
    success      integer not null default 0,    -- requests by their outcome
    incomplete   integer not null default 0,
    error        integer not null default 0,
    reason       text,
    remedy       text,
    notes        text check (notes is null or json_valid(notes)),       -- remarks: [{text, remedy}]
    warmed       text check (warmed is null or json_valid(warmed)),     -- by worker: [{url, sent, failed, mean_ms}]
    summary      text check (summary is null or json_valid(summary)),
    removed      integer not null default 0     -- 1: hidden, upkeep deletes it with its requests
) strict;
create index run_session on run_row (session_id) where session_id is not null;
create index run_router on run_row (router_id) where router_id is not null;
create index run_unfinished on run_row (state) where state in ('requested', 'warming', 'loading', 'draining');
create index run_removed on run_row (run_id) where removed = 1;

-- One request of a run. Moments are nanoseconds since the run's started_at, null: not reached.
create table if not exists request_row (
    request_id   integer primary key autoincrement,
    run_id       integer not null references run_row (run_id) on delete cascade,
    number       integer not null,              -- in order of intended sending, from 0
    prompt       integer not null,
    target       text not null,                 -- URL
    cold         integer not null,              -- the first of the run to its target
    intended_ns  integer not null,
    sent_ns      integer,
    first_ns     integer,
    last_ns      integer,
    end_ns       integer,
    ttft_ns      integer,
    tpot_ns      integer,
    e2e_ns       integer,
    lateness_ns  integer,
    input_tokens integer,
    output_tokens integer,
    input_source text,                          -- origin of the count
    output_source text,
    outcome      text not null check (outcome in ('success', 'incomplete', 'error')),
    status       integer,                       -- HTTP
    error        text,
    gaps_us      text check (gaps_us is null or json_valid(gaps_us))
) strict;
create unique index request_run on request_row (run_id, number);

-- Functions as counted by a server's own profiler.
create table if not exists function_row (
    function_id  integer primary key autoincrement,
    trace_id     integer references trace_row (trace_id) on delete cascade,       -- the file that they were read from
    session_id   integer references session_row (session_id) on delete cascade,
    worker_id    integer references worker_row (worker_id),
    moment       text not null check (moment in ('start', 'stop', 'difference')),
    name         text not null,
    file         text,
    line         integer,
    calls        integer not null,
    tsub_ns      integer not null,              -- without callees
    ttot_ns      integer not null,              -- with callees
    tavg_ns      integer not null
) strict;
create index function_trace on function_row (trace_id) where trace_id is not null;
create index function_session on function_row (session_id, worker_id) where session_id is not null;
create index function_worker on function_row (worker_id) where worker_id is not null;

create table if not exists event_row (
    event_id     integer primary key autoincrement,
    at           integer not null,
    kind         text not null,                 -- session-requested, session-state, target-state, trace-added, run, ...
    actor        text not null,                 -- requester: "uid 1000 (anna)", "profd"
    session_id   integer,
    target_id    integer,
    trace_id     integer,
    text         text not null,
    run_id       integer
) strict;
create index event_session on event_row (session_id, event_id);
create index event_run on event_row (run_id, event_id) where run_id is not null;

-- Public from here on.

create view routers as
    select router_id, url, dialect, fleet, first_seen_at, last_seen_at, last_used_at from router_row;

create view workers as
    select w.worker_id, w.url, r.url as router, w.engine, w.version, w.role, w.health, w.model, w.profilable, w.reason,
           w.remedy, w.trace_dir, w.last_seen_at
    from worker_row w left join router_row r using (router_id);

create view sessions as
    select s.session_id, s.state, r.url as router, s.dialect, s.fleet, s.options, s.labels, s.requested_at,
           s.requested_by, s.start_at, s.starts_sent_at, s.recording_at, s.stop_at, s.hard_stop_at, s.stopped_at,
           s.finished_at, s.skew_ns, s.reason, s.remedy, s.pinned, s.remarks, s.name, s.skipped
    from session_row s left join router_row r using (router_id);

create view targets as
    select t.target_id, t.session_id, w.url as worker, t.engine, t.version, t.role, t.state, t.profile_id, t.output_dir,
           t.trace_dir, t.ranks_expected, t.stop_pending, t.start_sent_at, t.start_answered_at, t.start_status, t.stop_sent_at,
           t.stop_answered_at, t.stop_status, t.failure, t.remedy
    from target_row t join worker_row w using (worker_id);

create view traces as
    select t.trace_id, t.session_id, t.target_id, w.url as worker, t.kind, t.state, t.reason, t.name, t.path, t.origin,
           t.stored, t.size, t.sha256, t.format, t.uncompressed, t.rank, t.dp, t.pp, t.tp, t.ep, t.stage, t.world_size, t.pid, t.devices,
           t.device_name, t.events, t.first_event_at, t.span_ns, t.candidates, t.owner_uid, t.recorded_at, t.collected_at,
           t.pinned, t.labels, t.last_event_at, t.columns, t.columns_size, t.columns_version, t.columns_reason, t.slices,
           t.gpu_slices, t.threads, t.flows, t.instance, t.disk_size
    from trace_row t left join worker_row w using (worker_id);

create view trace_names as
    select t.trace_id, nullif(t.category, '') as category, n.name, t.count, t.sum_ns, t.min_ns, t.max_ns
    from trace_name_row t join name_row n using (name_id);

create view trace_categories as
    select trace_id, nullif(category, '') as category, count, sum_ns from trace_category_row;

create view trace_defects as
    select t.trace_id, d.value ->> 'kind' as kind, d.value ->> 'count' as count, d.value ->> 'offset' as offset,
           d.value ->> 'text' as text
    from trace_row t, json_each(t.defects) d;

create view runs as
    select n.run_id, n.session_id, n.state, r.url as router, n.dialect, n.fleet, n.model, n.workload, n.targets, n.labels,
           n.requested_at, n.requested_by, n.started_at, n.ended_at, n.success, n.incomplete, n.error,
           n.summary ->> '$.throughput.requests_per_s' as requests_per_s,
           n.summary ->> '$.throughput.output_tokens_per_s' as output_tokens_per_s,
           n.summary ->> '$.metrics.ttft_ms.p50' as ttft_p50_ms, n.summary ->> '$.metrics.ttft_ms.p99' as ttft_p99_ms,
           n.summary ->> '$.metrics.itl_ms.p50' as itl_p50_ms, n.summary ->> '$.metrics.itl_ms.p99' as itl_p99_ms,
           n.summary ->> '$.metrics.tpot_ms.p50' as tpot_p50_ms, n.summary ->> '$.metrics.tpot_ms.p99' as tpot_p99_ms,
           n.summary ->> '$.metrics.e2e_ms.p50' as e2e_p50_ms, n.summary ->> '$.metrics.e2e_ms.p99' as e2e_p99_ms,
           n.reason, n.remedy, n.notes, n.warmed, n.summary
    from run_row n left join router_row r using (router_id) where n.removed = 0;

create view requests as
    select q.run_id, q.number, q.prompt, q.target, q.cold, n.started_at + q.intended_ns as intended_at, q.intended_ns,
           q.sent_ns, q.first_ns, q.last_ns, q.end_ns, q.ttft_ns, q.tpot_ns, q.e2e_ns, q.lateness_ns, q.input_tokens,
           q.output_tokens, q.input_source, q.output_source, q.outcome, q.status, q.error, q.gaps_us
    from request_row q join run_row n using (run_id) where n.removed = 0;

create view functions as
    select f.trace_id, f.session_id, w.url as worker, f.moment, f.name, f.file, f.line, f.calls, f.tsub_ns, f.ttot_ns,
           f.tavg_ns
    from function_row f left join worker_row w using (worker_id);

create view events as
    select event_id, at, kind, actor, session_id, target_id, trace_id, run_id, text from event_row;

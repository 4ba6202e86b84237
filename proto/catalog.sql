-- SPDX-License-Identifier: Apache-2.0
--
-- The catalog of profd: recordings, their workers, and their results. This file is the schema at user_version 8.
-- It also completes a catalog of an older version, from which daemon/catalog/migrate.c has dropped everything but the tables.
--
-- Public are the views at the end (routers, workers, sessions, targets, traces, trace_names, trace_categories, trace_defects,
-- runs, requests, functions, events, hosts, remote_traces, kernel_sums, category_sums, step_sums, finding): their columns keep
-- name and meaning.
-- The tables behind them (named *_row) may change between versions.
--
-- Times are integer nanoseconds since the Unix epoch, in columns named *_at; durations *_ns; sizes are bytes.
-- UUIDs are text of 36 characters; a NULL one is of a row that another program than profd added.
-- application_id is 'PROF' (0x50524f46), journal mode WAL.

-- One row: this catalog among those of other hosts. profd adds it when it first opens the file.
create table if not exists catalog_row (
    one          integer primary key check (one = 1),
    uuid         text not null,
    host         text not null,                 -- name of this host
    created_at   integer not null,
    replaces     text                           -- UUID that it had before it was restored from a copy
) strict;

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
    hard_stop_boot_ns integer,                  -- hard_stop_at
    uuid         text,
    coordinator  text,                          -- UUID of the catalog whose profd coordinates it; null: this one
    coordinator_name text,                      -- host of that profd
    lease_id     integer,                       -- of lease_row, where another profd coordinates it
    skew_error_ns integer                       -- uncertainty of skew_ns: how exactly the clocks of its hosts were compared
) strict;
create unique index session_uuid on session_row (uuid);
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
    host         text,                          -- name and catalog of the host that records it; null: this one
    host_uuid    text,
    clock_offset_ns integer,                    -- wall clock of that host minus the coordinator's, when the recording began
    clock_error_ns integer,                     -- uncertainty of the offset
    clock_rtt_ns integer,                       -- round trip of the exchange that it was taken from
    clock_maxerror_ns integer,                  -- maximum error that the host's kernel states (adjtimex)
    clock_unsync integer,                       -- 1: that kernel's clock is not synchronized
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
                                              then -coalesce(worker_id, 0) else owner_uid end) virtual,
    uuid         text,
    archived_at  integer,                       -- when the archive was seen to have it; null: it does not
    archive_key  text                           -- name of its object there
) strict;
create index trace_recorded on trace_row (recorded_at);
create index trace_session on trace_row (session_id, recorded_at, trace_id, size, disk_size);   -- sizes: for the sum
create index trace_target on trace_row (target_id) where target_id is not null;
create index trace_worker on trace_row (worker_id, recorded_at);
create index trace_origin on trace_row (origin);
create index trace_evictable on trace_row (collected_at, trace_id, holder) where (stored = 1 or columns is not null) and pinned = 0;
create index trace_leavable on trace_row (collected_at, trace_id, holder)   -- of those, what may go where there is an archive
    where (stored = 1 or columns is not null) and pinned = 0 and (archived_at is not null or stored = 0);
create index trace_holder on trace_row (holder, collected_at, trace_id) where (stored = 1 or columns is not null) and pinned = 0;
create index trace_pinned on trace_row (trace_id) where pinned = 1;
create unique index trace_uuid on trace_row (uuid);
create index trace_unarchived on trace_row (trace_id) where archived_at is null and stored = 1;
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
-- Two copies of the catalog, and its mirror, count the age of a trace from the same moment.
create trigger trace_collected before update of collected_at on trace_row when new.collected_at <> old.collected_at begin
    select raise(abort, 'collected_at of a trace never changes');
end;
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
    removed      integer not null default 0,    -- 1: hidden, upkeep deletes it with its requests
    uuid         text
) strict;
create unique index run_uuid on run_row (uuid);
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

-- Per phase of a trace, the durations of its engine steps.
create table if not exists trace_step_row (
    trace_id     integer not null references trace_row (trace_id) on delete cascade,
    phase        text not null,                 -- prefill, decode, ...; '' is none
    steps        integer not null,
    sum_ns       integer not null,
    p50_ns       integer,
    p99_ns       integer,
    max_ns       integer,
    primary key (trace_id, phase)
) strict, without rowid;

-- The findings of a trace that was analyzed alone.
create table if not exists trace_finding_row (
    trace_id     integer not null references trace_row (trace_id) on delete cascade,
    number       integer not null,              -- from 1, by cost
    rule         text not null,
    label        text,
    what         text,                          -- the finding in one line
    cost_ns      integer,
    share        real,
    primary key (trace_id, number)
) strict, without rowid;

-- Hosts whose profd this one has talked to.
create table if not exists host_row (
    host_id      integer primary key,
    host_uuid    text not null unique,          -- of its catalog
    name         text not null,
    url          text,
    version      text,
    first_seen_at integer not null,
    last_seen_at integer not null,
    clock_offset_ns integer,                    -- its wall clock minus this host's, as last measured
    clock_error_ns integer
) strict;

-- Workers of this host that a coordinator may record. The number fences: it only grows, and the newest one of a worker is valid.
create table if not exists lease_row (
    lease_id     integer primary key autoincrement,
    session_uuid text not null,
    coordinator  text not null,                 -- UUID of its catalog
    coordinator_name text,
    actor        text not null,                 -- who asked the coordinator
    state        text not null check (state in ('granted', 'prepared', 'started', 'over', 'released', 'expired')),
    workers      text not null check (json_valid(workers)),   -- their URLs
    granted_at   integer not null,
    deadline_boot_ns integer,                   -- by the CLOCK_BOOTTIME of boot_id
    boot_id      text,
    session_id   integer references session_row (session_id) on delete set null,   -- that records them
    granted_to   text                           -- token or user that asked for it here: nobody else may use it
) strict;
create index lease_session_uuid on lease_row (session_uuid);
create index lease_session on lease_row (session_id) where session_id is not null;
create index lease_open on lease_row (lease_id) where state in ('granted', 'prepared', 'started');

-- What another host does of a session that this profd coordinates.
create table if not exists part_row (
    part_id      integer primary key autoincrement,
    session_id   integer not null references session_row (session_id) on delete cascade,
    host_uuid    text not null,
    peer         text not null,                 -- section of profd.conf, or name of the host
    url          text not null,
    lease_id     integer,                       -- in the host's catalog
    state        text not null,
    delivered    integer not null default 0,    -- seq in the host's change_row up to which its rows were taken
    answered_at  integer,                       -- its last answer
    deadline_at  integer,                       -- until when a host that is late is asked for its traces
    open         integer not null default 1,    -- 1: it may still deliver
    unique (session_id, host_uuid)
) strict;
create index part_open on part_row (part_id) where open = 1;

-- Traces of this catalog's sessions that another host keeps. Their numbers come from the sequence of trace_row.
create table if not exists remote_trace_row (
    trace_id     integer primary key,
    uuid         text not null unique,
    session_id   integer references session_row (session_id) on delete cascade,
    target_id    integer references target_row (target_id) on delete set null,
    host_uuid    text not null,
    remote_id    integer not null,              -- its number in the host's catalog
    recorded_at  integer not null,
    facts        text not null check (json_valid(facts))      -- as the host's API shows it
) strict;
create index remote_trace_recorded on remote_trace_row (recorded_at, trace_id);
create index remote_trace_session on remote_trace_row (session_id, recorded_at, trace_id);
create index remote_trace_target on remote_trace_row (target_id) where target_id is not null;

-- Files that the archive is to have, and how far their transfer is.
create table if not exists upload_row (
    upload_id    integer primary key autoincrement,
    kind         text not null check (kind in ('trace', 'slices', 'session')),
    trace_id     integer references trace_row (trace_id) on delete cascade,
    session_id   integer references session_row (session_id) on delete cascade,
    path         text not null,
    key          text not null,                 -- name of the object
    size         integer,
    sha256       text,
    s3_upload_id text,                          -- of a transfer in parts that began
    parts        text check (parts is null or json_valid(parts)),
    tries        integer not null default 0,
    next_at      integer,                       -- null: at once
    error        text,                          -- of the last try
    wanted_at    integer not null
) strict;
create unique index upload_trace on upload_row (trace_id, kind) where trace_id is not null;
create index upload_session on upload_row (session_id, kind) where session_id is not null;
create index upload_next on upload_row (next_at, upload_id);

-- What profd has yet to compute, the oldest first: of a trace its sums, of a session its slices, of a benchmark run its requests. One that is
-- wanted again gets a new number, so that the end of a computation that had begun before does not end it. The triggers delete and insert:
-- `insert or replace` would obey the conflict clause of the statement that fired them.
create table if not exists background_row (
    background_id integer primary key autoincrement,
    kind         text not null check (kind in ('sums', 'slices', 'requests')),
    id           integer not null,
    tries        integer not null default 0,    -- that failed
    next_at      integer not null default 0,    -- 0: at once
    unique (kind, id)
) strict;
create index background_next on background_row (kind, next_at);
create trigger background_slices after update of state on session_row
    when new.state in ('complete', 'partial') and old.state <> new.state begin
    delete from background_row where kind = 'slices' and id = new.session_id;
    insert into background_row (kind, id) values ('slices', new.session_id);
end;

create trigger background_requests after update of state on run_row
    when new.state in ('complete', 'partial', 'failed', 'cancelled') and old.state <> new.state begin
    delete from background_row where kind = 'requests' and id = new.run_id;
    insert into background_row (kind, id) values ('requests', new.run_id);
end;

-- The number of the last change of each row that other hosts or a mirror take over. Numbers only grow: a reader who knows a number
-- lacks exactly the rows after it. The triggers delete and insert: `insert or replace` would obey the conflict clause of the statement that fired them.
--
-- Imports write nothing but traces and events, and most catalogs have no reader: these two kinds have no number before a reader asks
-- (catalog_number_changes()). A trace without a number is changed and deleted without a trace in this table: nobody knows it.
create table if not exists change_row (
    seq          integer primary key autoincrement,
    kind         text not null,                 -- as below; t: the trace with its sums
    id           integer not null,
    at           integer not null,              -- to the second
    gone         integer not null default 0,    -- 1: the row was deleted. Deleted events leave nothing behind
    unique (kind, id)
) strict;
create index change_gone on change_row (seq) where gone = 1;
-- Traces and events up to these ids have, or had, a number. Those after them may have one.
create table if not exists change_mark (
    kind         text primary key,
    id           integer not null
) strict, without rowid;
insert or ignore into change_mark (kind, id) values ('t', 0), ('e', 0);
-- Of a catalog that had no such table.
insert into change_row (kind, id, at)
    select kind, id, unixepoch() * 1000000000
    from (select 1 as part, 'o' as kind, router_id as id from router_row union all
          select 2, 'w', worker_id from worker_row union all
          select 3, 's', session_id from session_row union all
          select 4, 'g', target_id from target_row union all
          select 5, 'r', run_id from run_row union all
          select 6, 'f', function_id from function_row)
    where not exists (select 1 from change_row);
-- Numbers of an autoincrement table are new; those of routers and workers may have been used before. A worker that a discovery
-- only saw again has not changed.
create trigger change_added_router after insert on router_row begin
    delete from change_row where kind = 'o' and id = new.router_id;
    insert into change_row (kind, id, at) values ('o', new.router_id, unixepoch() * 1000000000);
end;
create trigger change_saved_router after update of dialect, fleet, last_used_at
    on router_row
    when new.url is not old.url or new.dialect is not old.dialect or new.fleet is not old.fleet
         or new.first_seen_at is not old.first_seen_at or new.last_used_at is not old.last_used_at begin
    delete from change_row where kind = 'o' and id = new.router_id;
    insert into change_row (kind, id, at) values ('o', new.router_id, unixepoch() * 1000000000);
end;
create trigger change_removed_router after delete on router_row begin
    delete from change_row where kind = 'o' and id = old.router_id;
    insert into change_row (kind, id, at, gone) values ('o', old.router_id, unixepoch() * 1000000000, 1);
end;
create trigger change_added_worker after insert on worker_row begin
    delete from change_row where kind = 'w' and id = new.worker_id;
    insert into change_row (kind, id, at) values ('w', new.worker_id, unixepoch() * 1000000000);
end;
create trigger change_saved_worker after update of router_id, engine, version, role, health, model, profilable, reason, remedy, trace_dir
    on worker_row
    when new.url is not old.url or new.router_id is not old.router_id or new.engine is not old.engine
         or new.version is not old.version or new.role is not old.role or new.health is not old.health
         or new.model is not old.model or new.profilable is not old.profilable or new.reason is not old.reason
         or new.remedy is not old.remedy or new.trace_dir is not old.trace_dir begin
    delete from change_row where kind = 'w' and id = new.worker_id;
    insert into change_row (kind, id, at) values ('w', new.worker_id, unixepoch() * 1000000000);
end;
create trigger change_removed_worker after delete on worker_row begin
    delete from change_row where kind = 'w' and id = old.worker_id;
    insert into change_row (kind, id, at, gone) values ('w', old.worker_id, unixepoch() * 1000000000, 1);
end;
create trigger change_added_session after insert on session_row begin
    insert into change_row (kind, id, at) values ('s', new.session_id, unixepoch() * 1000000000);
end;
create trigger change_saved_session after update on session_row begin
    delete from change_row where kind = 's' and id = new.session_id;
    insert into change_row (kind, id, at) values ('s', new.session_id, unixepoch() * 1000000000);
end;
create trigger change_removed_session after delete on session_row begin
    delete from change_row where kind = 's' and id = old.session_id;
    insert into change_row (kind, id, at, gone) values ('s', old.session_id, unixepoch() * 1000000000, 1);
end;
create trigger change_added_target after insert on target_row begin
    insert into change_row (kind, id, at) values ('g', new.target_id, unixepoch() * 1000000000);
end;
create trigger change_saved_target after update on target_row begin
    delete from change_row where kind = 'g' and id = new.target_id;
    insert into change_row (kind, id, at) values ('g', new.target_id, unixepoch() * 1000000000);
end;
create trigger change_removed_target after delete on target_row begin
    delete from change_row where kind = 'g' and id = old.target_id;
    insert into change_row (kind, id, at, gone) values ('g', old.target_id, unixepoch() * 1000000000, 1);
end;
create trigger change_saved_trace after update on trace_row
    when exists (select 1 from change_row where kind = 't' and id = new.trace_id) begin
    delete from change_row where kind = 't' and id = new.trace_id;
    insert into change_row (kind, id, at) values ('t', new.trace_id, unixepoch() * 1000000000);
end;
create trigger change_removed_trace after delete on trace_row
    when exists (select 1 from change_row where kind = 't' and id = old.trace_id) begin
    delete from change_row where kind = 't' and id = old.trace_id;
    insert into change_row (kind, id, at, gone) values ('t', old.trace_id, unixepoch() * 1000000000, 1);
end;
create trigger change_added_run after insert on run_row begin
    insert into change_row (kind, id, at) values ('r', new.run_id, unixepoch() * 1000000000);
end;
create trigger change_saved_run after update on run_row begin
    delete from change_row where kind = 'r' and id = new.run_id;
    insert into change_row (kind, id, at) values ('r', new.run_id, unixepoch() * 1000000000);
end;
create trigger change_removed_run after delete on run_row begin
    delete from change_row where kind = 'r' and id = old.run_id;
    insert into change_row (kind, id, at, gone) values ('r', old.run_id, unixepoch() * 1000000000, 1);
end;
create trigger change_added_function after insert on function_row begin
    insert into change_row (kind, id, at) values ('f', new.function_id, unixepoch() * 1000000000);
end;
create trigger change_saved_function after update on function_row begin
    delete from change_row where kind = 'f' and id = new.function_id;
    insert into change_row (kind, id, at) values ('f', new.function_id, unixepoch() * 1000000000);
end;
create trigger change_removed_function after delete on function_row begin
    delete from change_row where kind = 'f' and id = old.function_id;
    insert into change_row (kind, id, at, gone) values ('f', old.function_id, unixepoch() * 1000000000, 1);
end;
create trigger change_removed_event after delete on event_row begin
    delete from change_row where kind = 'e' and id = old.event_id;
end;

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
           s.finished_at, s.skew_ns, s.reason, s.remedy, s.pinned, s.remarks, s.name, s.skipped, s.uuid,
           (select host from catalog_row) as host, s.coordinator, s.coordinator_name, s.skew_error_ns
    from session_row s left join router_row r using (router_id);

create view targets as
    select t.target_id, t.session_id, w.url as worker, t.engine, t.version, t.role, t.state, t.profile_id, t.output_dir,
           t.trace_dir, t.ranks_expected, t.stop_pending, t.start_sent_at, t.start_answered_at, t.start_status, t.stop_sent_at,
           t.stop_answered_at, t.stop_status, t.failure, t.remedy, coalesce(t.host, (select host from catalog_row)) as host,
           coalesce(t.host_uuid, (select uuid from catalog_row)) as host_uuid, t.clock_offset_ns, t.clock_error_ns,
           t.clock_rtt_ns, t.clock_maxerror_ns, t.clock_unsync
    from target_row t join worker_row w using (worker_id);

create view traces as
    select t.trace_id, t.session_id, t.target_id, w.url as worker, t.kind, t.state, t.reason, t.name, t.path, t.origin,
           t.stored, t.size, t.sha256, t.format, t.uncompressed, t.rank, t.dp, t.pp, t.tp, t.ep, t.stage, t.world_size, t.pid, t.devices,
           t.device_name, t.events, t.first_event_at, t.span_ns, t.candidates, t.owner_uid, t.recorded_at, t.collected_at,
           t.pinned, t.labels, t.last_event_at, t.columns, t.columns_size, t.columns_version, t.columns_reason, t.slices,
           t.gpu_slices, t.threads, t.flows, t.instance, t.disk_size, t.uuid, (select host from catalog_row) as host,
           t.archived_at, t.archive_key
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
           n.reason, n.remedy, n.notes, n.warmed, n.summary, n.uuid
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

create view hosts as
    select uuid as host_uuid, host, 1 as local, null as url, null as version, created_at as first_seen_at, null as last_seen_at,
           null as clock_offset_ns, null as clock_error_ns
    from catalog_row
    union all
    select host_uuid, name, 0, url, version, first_seen_at, last_seen_at, clock_offset_ns, clock_error_ns from host_row;

create view remote_traces as
    select m.trace_id, m.uuid, m.session_id, m.target_id, w.url as worker, coalesce(h.name, g.host) as host, m.host_uuid,
           m.remote_id, m.facts ->> 'kind' as kind, m.facts ->> 'state' as state, m.facts ->> 'reason' as reason,
           m.facts ->> 'name' as name, m.facts ->> 'size' as size, m.facts ->> 'sha256' as sha256,
           m.facts ->> 'format' as format, m.facts ->> '$.ranks.rank' as rank, m.facts ->> '$.ranks.dp' as dp,
           m.facts ->> '$.ranks.pp' as pp, m.facts ->> '$.ranks.tp' as tp, m.facts ->> '$.ranks.ep' as ep,
           m.facts ->> 'stage' as stage, m.facts ->> 'world_size' as world_size, m.facts ->> 'instance' as instance,
           m.facts ->> 'events' as events, m.facts ->> 'first_event_at' as first_event_at,
           m.facts ->> 'last_event_at' as last_event_at, m.facts ->> 'span_ns' as span_ns, m.facts ->> 'slices' as slices,
           m.facts ->> 'gpu_slices' as gpu_slices, m.facts -> 'labels' as labels, m.recorded_at,
           (m.facts ->> 'collected_at') - ((m.facts ->> 'recorded_at') - m.recorded_at) as collected_at, m.facts ->> 'archived_at' as archived_at,
           m.facts ->> 'archive_key' as archive_key
    from remote_trace_row m left join target_row g using (target_id) left join worker_row w using (worker_id)
         left join host_row h on h.host_uuid = m.host_uuid;

-- Figures of traces, for questions over a fleet: each row names its catalog, host, trace, session, worker and rank.

create view kernel_sums as
    select c.uuid as catalog, c.host, t.trace_id, t.uuid as trace_uuid, s.uuid as session_uuid, w.url as worker, t.rank,
           t.recorded_at, t.collected_at, k.position, k.name, k.count, k.sum_ns, k.min_ns, k.max_ns
    from (select trace_id, row_number() over (partition by trace_id order by sum_ns desc, name) as position, name, count,
                 sum_ns, min_ns, max_ns
          from trace_names where category = 'kernel') k
         join trace_row t using (trace_id) left join session_row s using (session_id)
         left join worker_row w on w.worker_id = t.worker_id left join catalog_row c
    where k.position <= 20;

create view category_sums as
    select c.uuid as catalog, c.host, t.trace_id, t.uuid as trace_uuid, s.uuid as session_uuid, w.url as worker, t.rank,
           t.recorded_at, t.collected_at, nullif(k.category, '') as category, k.count, k.sum_ns
    from trace_category_row k join trace_row t using (trace_id) left join session_row s using (session_id)
         left join worker_row w on w.worker_id = t.worker_id left join catalog_row c;

create view step_sums as
    select c.uuid as catalog, c.host, t.trace_id, t.uuid as trace_uuid, s.uuid as session_uuid, w.url as worker, t.rank,
           t.recorded_at, t.collected_at, nullif(k.phase, '') as phase, k.steps, k.sum_ns, k.p50_ns, k.p99_ns, k.max_ns
    from trace_step_row k join trace_row t using (trace_id) left join session_row s using (session_id)
         left join worker_row w on w.worker_id = t.worker_id left join catalog_row c;

create view finding as
    select c.uuid as catalog, c.host, t.trace_id, t.uuid as trace_uuid, s.uuid as session_uuid, w.url as worker, t.rank,
           t.recorded_at, t.collected_at, k.number, k.rule, k.label, k.what, k.cost_ns, k.share
    from trace_finding_row k join trace_row t using (trace_id) left join session_row s using (session_id)
         left join worker_row w on w.worker_id = t.worker_id left join catalog_row c;

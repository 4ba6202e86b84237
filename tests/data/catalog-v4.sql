-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 3 to 4: workloads that were run with each of their requests, and functions that servers counted.

-- One execution of a workload. What its summary says beside the counts is one object, docs/workload.md.
create table run_row (
    run_id       integer primary key autoincrement,
    session_id   integer references session_row (session_id) on delete set null,   -- that recorded meanwhile
    state        text not null check (state in ('requested', 'warming', 'loading', 'draining', 'complete', 'partial',
                                                'failed', 'cancelled')),
    router_id    integer references router_row (router_id) on delete set null,
    dialect      text,                          -- of the router, or static
    fleet        text,                          -- section of profd.conf
    model        text,
    workload     text not null check (json_valid(workload)),
    targets      text not null check (json_valid(targets)),   -- who is sent requests: [{url, engine}]
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
    notes        text check (notes is null or json_valid(notes)),       -- what was noticed: [{text, remedy}]
    warmed       text check (warmed is null or json_valid(warmed)),     -- by worker: [{url, sent, failed, mean_ms}]
    summary      text check (summary is null or json_valid(summary)),
    removed      integer not null default 0     -- 1: out of sight, upkeep deletes it with its requests
) strict;
create index run_session on run_row (session_id) where session_id is not null;
create index run_router on run_row (router_id) where router_id is not null;
create index run_unfinished on run_row (state) where state in ('requested', 'warming', 'loading', 'draining');
create index run_removed on run_row (run_id) where removed = 1;

-- One request of a run. Moments are nanoseconds since the run's started_at, null: it did not come to that.
create table request_row (
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
    input_source text,                          -- who counted
    output_source text,
    outcome      text not null check (outcome in ('success', 'incomplete', 'error')),
    status       integer,                       -- HTTP
    error        text,
    gaps_us      text check (gaps_us is null or json_valid(gaps_us))
) strict;
create unique index request_run on request_row (run_id, number);

-- What a server's own profiler counted of its functions.
create table function_row (
    function_id  integer primary key autoincrement,
    trace_id     integer references trace_row (trace_id) on delete cascade,       -- the file that they were read from
    session_id   integer references session_row (session_id) on delete cascade,
    worker_id    integer references worker_row (worker_id),
    moment       text not null check (moment in ('start', 'stop', 'difference')),
    name         text not null,
    file         text,
    line         integer,
    calls        integer not null,
    tsub_ns      integer not null,              -- in it alone
    ttot_ns      integer not null,              -- and in what it called
    tavg_ns      integer not null
) strict;
create index function_trace on function_row (trace_id) where trace_id is not null;
create index function_session on function_row (session_id, worker_id) where session_id is not null;
create index function_worker on function_row (worker_id) where worker_id is not null;

alter table event_row add column run_id integer;
create index event_run on event_row (run_id, event_id) where run_id is not null;

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

drop view events;
create view events as
    select event_id, at, kind, actor, session_id, target_id, trace_id, run_id, text from event_row;

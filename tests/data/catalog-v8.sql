-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 7 to 8: sessions over several hosts, the archive, and changes with numbers. Its indexes, triggers and views are not here:
-- a migration makes them anew.

alter table session_row add column uuid text;
alter table session_row add column coordinator text;
alter table session_row add column coordinator_name text;
alter table session_row add column lease_id integer;
alter table session_row add column skew_error_ns integer;
update session_row set uuid = lower(format('%s-%s-4%s-%s%s-%s', hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2),
    substr('89ab', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2), hex(randomblob(6))));
alter table target_row add column host text;
alter table target_row add column host_uuid text;
alter table target_row add column clock_offset_ns integer;
alter table target_row add column clock_error_ns integer;
alter table target_row add column clock_rtt_ns integer;
alter table target_row add column clock_maxerror_ns integer;
alter table target_row add column clock_unsync integer;
alter table trace_row add column uuid text;
alter table trace_row add column archived_at integer;
alter table trace_row add column archive_key text;
update trace_row set uuid = lower(format('%s-%s-4%s-%s%s-%s', hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2),
    substr('89ab', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2), hex(randomblob(6))));
alter table run_row add column uuid text;
update run_row set uuid = lower(format('%s-%s-4%s-%s%s-%s', hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2),
    substr('89ab', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2), hex(randomblob(6))));

create table catalog_row (
    one          integer primary key check (one = 1),
    uuid         text not null,
    host         text not null,
    created_at   integer not null,
    replaces     text
) strict;
create table host_row (
    host_id      integer primary key,
    host_uuid    text not null unique,
    name         text not null,
    url          text,
    version      text,
    first_seen_at integer not null,
    last_seen_at integer not null,
    clock_offset_ns integer,
    clock_error_ns integer
) strict;
create table lease_row (
    lease_id     integer primary key autoincrement,
    session_uuid text not null,
    coordinator  text not null,
    coordinator_name text,
    actor        text not null,
    state        text not null check (state in ('granted', 'prepared', 'started', 'over', 'released', 'expired')),
    workers      text not null check (json_valid(workers)),
    granted_at   integer not null,
    deadline_boot_ns integer,
    boot_id      text,
    session_id   integer references session_row (session_id) on delete set null
) strict;
create table part_row (
    part_id      integer primary key autoincrement,
    session_id   integer not null references session_row (session_id) on delete cascade,
    host_uuid    text not null,
    peer         text not null,
    url          text not null,
    lease_id     integer,
    state        text not null,
    delivered    integer not null default 0,
    answered_at  integer,
    deadline_at  integer,
    open         integer not null default 1,
    unique (session_id, host_uuid)
) strict;
create table remote_trace_row (
    trace_id     integer primary key,
    uuid         text not null unique,
    session_id   integer references session_row (session_id) on delete cascade,
    target_id    integer references target_row (target_id) on delete set null,
    host_uuid    text not null,
    remote_id    integer not null,
    recorded_at  integer not null,
    facts        text not null check (json_valid(facts))
) strict;
create table upload_row (
    upload_id    integer primary key autoincrement,
    kind         text not null check (kind in ('trace', 'slices', 'sums', 'session')),
    trace_id     integer references trace_row (trace_id) on delete cascade,
    session_id   integer references session_row (session_id) on delete cascade,
    path         text not null,
    key          text not null,
    size         integer,
    sha256       text,
    s3_upload_id text,
    parts        text check (parts is null or json_valid(parts)),
    tries        integer not null default 0,
    next_at      integer,
    error        text,
    wanted_at    integer not null
) strict;
create table change_row (
    seq          integer primary key autoincrement,
    kind         text not null,
    id           integer not null,
    at           integer not null,
    gone         integer not null default 0,
    unique (kind, id)
) strict;
create table trace_step_row (
    trace_id     integer not null references trace_row (trace_id) on delete cascade,
    phase        text not null,
    steps        integer not null,
    sum_ns       integer not null,
    p50_ns       integer,
    p99_ns       integer,
    max_ns       integer,
    primary key (trace_id, phase)
) strict, without rowid;
create table trace_finding_row (
    trace_id     integer not null references trace_row (trace_id) on delete cascade,
    number       integer not null,
    rule         text not null,
    label        text,
    what         text,
    cost_ns      integer,
    share        real,
    primary key (trace_id, number)
) strict, without rowid;

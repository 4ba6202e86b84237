-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 1 to 2: what was read out of a trace, and where its columns are.

alter table trace_row add column labels text not null default '{}' check (json_valid(labels));
alter table trace_row add column last_event_at integer;
alter table trace_row add column columns text;
alter table trace_row add column columns_size integer;
alter table trace_row add column columns_version integer;
alter table trace_row add column columns_reason text;
alter table trace_row add column slices integer;
alter table trace_row add column gpu_slices integer;
alter table trace_row add column threads integer;
alter table trace_row add column flows integer;
alter table trace_row add column defects text check (defects is null or json_valid(defects));

drop index trace_evictable;
create index trace_evictable on trace_row (recorded_at) where (stored = 1 or columns is not null) and pinned = 0;
create index trace_sha256 on trace_row (sha256) where sha256 is not null;

create table name_row (
    name_id      integer primary key,
    name         text not null unique
) strict;

create table trace_name_row (
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

create table trace_category_row (
    trace_id     integer not null references trace_row (trace_id) on delete cascade,
    category     text not null,
    count        integer not null,
    sum_ns       integer not null,
    primary key (trace_id, category)
) strict, without rowid;

drop trigger trace_added;
drop trigger trace_removed;
drop trigger trace_resized;
create trigger trace_added after insert on trace_row begin
    update usage_row set traces = traces + 1, bytes = bytes + new.size * new.stored + coalesce(new.columns_size, 0);
end;
create trigger trace_removed after delete on trace_row begin
    update usage_row set traces = traces - 1, bytes = bytes - old.size * old.stored - coalesce(old.columns_size, 0);
end;
create trigger trace_resized after update of size, stored, columns_size on trace_row begin
    update usage_row set bytes = bytes + new.size * new.stored + coalesce(new.columns_size, 0)
                                       - old.size * old.stored - coalesce(old.columns_size, 0);
end;

drop view traces;
create view traces as
    select t.trace_id, t.session_id, t.target_id, w.url as worker, t.kind, t.state, t.reason, t.name, t.path, t.origin,
           t.stored, t.size, t.sha256, t.format, t.uncompressed, t.rank, t.dp, t.pp, t.tp, t.ep, t.stage, t.world_size, t.pid, t.devices,
           t.device_name, t.events, t.first_event_at, t.span_ns, t.candidates, t.owner_uid, t.recorded_at, t.collected_at,
           t.pinned, t.labels, t.last_event_at, t.columns, t.columns_size, t.columns_version, t.columns_reason, t.slices,
           t.gpu_slices, t.threads, t.flows
    from trace_row t left join worker_row w using (worker_id);

create view trace_names as
    select t.trace_id, nullif(t.category, '') as category, n.name, t.count, t.sum_ns, t.min_ns, t.max_ns
    from trace_name_row t join name_row n using (name_id);

create view trace_categories as
    select trace_id, nullif(category, '') as category, count, sum_ns from trace_category_row;

create view trace_defects as
    select t.trace_id, d.value ->> 'kind' as kind, d.value ->> 'count' as count, d.value ->> 'place' as place,
           d.value ->> 'text' as text
    from trace_row t, json_each(t.defects) d;

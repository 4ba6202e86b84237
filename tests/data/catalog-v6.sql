-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 5 to 6: the moments of a recording by a clock that nobody sets; what a trace takes on the disk, which the
-- budget counts, and in whose share of the store it counts. The sizes of files that are there are measured at the next start of
-- profd; until then they count as they are long.

alter table session_row add column begun_at integer;
alter table session_row add column boot_id text;
alter table session_row add column begun_boot_ns integer;
alter table session_row add column stop_boot_ns integer;
alter table session_row add column hard_stop_boot_ns integer;
update session_row set begun_at = (select min(start_sent_at) from target_row t where t.session_id = session_row.session_id)
    where state in ('starting', 'recording', 'stopping', 'collecting');

alter table trace_row add column disk_size integer not null default 0;
alter table trace_row add column
    holder       integer generated always as (case when owner_uid is null or owner_uid in (0, 65534)
                                              then -coalesce(worker_id, 0) else owner_uid end) virtual;

drop index trace_session;
create index trace_session on trace_row (session_id, recorded_at, trace_id, size, disk_size);
drop index trace_evictable;
create index trace_evictable on trace_row (collected_at, trace_id, holder) where (stored = 1 or columns is not null) and pinned = 0;

drop trigger trace_added;
drop trigger trace_removed;
drop trigger trace_resized;
update trace_row set disk_size = size where stored = 1;
create table holder_row (
    holder       integer primary key,
    traces       integer not null,
    bytes        integer not null
) strict;
insert into holder_row (holder, traces, bytes)
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

drop view traces;
create view traces as
    select t.trace_id, t.session_id, t.target_id, w.url as worker, t.kind, t.state, t.reason, t.name, t.path, t.origin,
           t.stored, t.size, t.sha256, t.format, t.uncompressed, t.rank, t.dp, t.pp, t.tp, t.ep, t.stage, t.world_size, t.pid, t.devices,
           t.device_name, t.events, t.first_event_at, t.span_ns, t.candidates, t.owner_uid, t.recorded_at, t.collected_at,
           t.pinned, t.labels, t.last_event_at, t.columns, t.columns_size, t.columns_version, t.columns_reason, t.slices,
           t.gpu_slices, t.threads, t.flows, t.instance, t.disk_size
    from trace_row t left join worker_row w using (worker_id);

-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 2 to 3: what profd noticed of a session, which file a trace was, and what was removed.

alter table session_row add column remarks text check (remarks is null or json_valid(remarks));
alter table trace_row add column device integer;
alter table trace_row add column inode integer;
alter table trace_row add column process_started integer;

-- The originals of traces that were removed, where they lay: they are not collected again.
create table removed_row (
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

drop view sessions;
create view sessions as
    select s.session_id, s.state, r.url as router, s.dialect, s.fleet, s.options, s.labels, s.requested_at,
           s.requested_by, s.start_at, s.starts_sent_at, s.recording_at, s.stop_at, s.hard_stop_at, s.stopped_at,
           s.finished_at, s.skew_ns, s.reason, s.remedy, s.pinned, s.remarks
    from session_row s left join router_row r using (router_id);

-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 6 to 7: plain names for a pending stop and for the offset of a defect, and an index for the oldest trace of
-- a user or worker.

drop view targets;
drop view trace_defects;
alter table target_row rename column owes_stop to stop_pending;
update trace_row set defects = replace(defects, '"place":', '"offset":') where defects is not null;
create index trace_holder on trace_row (holder, collected_at, trace_id) where (stored = 1 or columns is not null) and pinned = 0;

create view targets as
    select t.target_id, t.session_id, w.url as worker, t.engine, t.version, t.role, t.state, t.profile_id, t.output_dir,
           t.trace_dir, t.ranks_expected, t.stop_pending, t.start_sent_at, t.start_answered_at, t.start_status, t.stop_sent_at,
           t.stop_answered_at, t.stop_status, t.failure, t.remedy
    from target_row t join worker_row w using (worker_id);

create view trace_defects as
    select t.trace_id, d.value ->> 'kind' as kind, d.value ->> 'count' as count, d.value ->> 'offset' as offset,
           d.value ->> 'text' as text
    from trace_row t, json_each(t.defects) d;

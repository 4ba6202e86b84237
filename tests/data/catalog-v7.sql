-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 6 to 7: a pending stop and the offset of a defect have the names that the API uses.

alter table target_row rename column owes_stop to stop_pending;
update trace_row set defects = replace(defects, '"place":', '"offset":') where defects is not null;

drop view trace_defects;
create view trace_defects as
    select t.trace_id, d.value ->> 'kind' as kind, d.value ->> 'count' as count, d.value ->> 'offset' as offset,
           d.value ->> 'text' as text
    from trace_row t, json_each(t.defects) d;

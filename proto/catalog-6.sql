-- SPDX-License-Identifier: Apache-2.0
--
-- From user_version 5 to 6: the moments of a recording by a clock that nobody sets.

alter table session_row add column begun_at integer;
alter table session_row add column boot_id text;
alter table session_row add column begun_boot_ns integer;
alter table session_row add column stop_boot_ns integer;
alter table session_row add column hard_stop_boot_ns integer;
update session_row set begun_at = (select min(start_sent_at) from target_row t where t.session_id = session_row.session_id)
    where state in ('starting', 'recording', 'stopping', 'collecting');

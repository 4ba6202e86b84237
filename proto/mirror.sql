-- SPDX-License-Identifier: Apache-2.0
--
-- The mirror of the catalogs of many hosts in PostgreSQL 14 or later. profctl mirror init and migrate run this file in one
-- transaction, as role fleet_owner; it creates what is missing and replaces views and functions. Version: fleet.version.
--
-- Public are the views (routers, workers, sessions, targets, traces, trace_categories, trace_defects, runs, functions, events,
-- kernel_sums, category_sums, step_sums, finding): the names and columns of the catalog's views (proto/catalog.sql), and catalog and
-- host. Times are timestamptz, in microseconds: digits below are cut off. The tables behind the views may change between versions.
--
-- fleet.apply() is the only function that writes, and the only one that fleet_writer may call. Rows are JSON objects whose
-- members are the columns of the views; members that a table lacks are ignored. There are no foreign keys: hosts send in their
-- own order.

create table if not exists fleet.version (
    one         boolean primary key default true check (one),
    version     integer not null,
    keep_from   timestamptz not null default '-infinity'   -- rows before that were expired, and are not taken again
);

-- One row for each catalog that was seen, by its own UUID.
create table if not exists fleet.catalog (
    catalog_id  integer generated always as identity primary key,
    uuid        uuid not null unique,
    host        text not null,
    applied     bigint not null default 0,                 -- number of the last change that was taken
    last        bigint not null default 0,                 -- number of the newest change of the catalog when it sent that one
    changed_at  timestamptz,                               -- time of the last change that was taken
    rows        bigint not null default 0,                 -- rows that were taken
    catalog_version integer,
    profd       text,                                      -- version of profd
    first_seen_at timestamptz not null default now(),
    seen_at     timestamptz not null default now(),
    replaced_by uuid                                       -- restored from a backup: the catalog that has its rows now
);

create table if not exists fleet.router (
    catalog_id integer not null, router_id bigint not null, url text, dialect text, fleet text, first_seen_at timestamptz,
    last_seen_at timestamptz, last_used_at timestamptz,
    primary key (catalog_id, router_id)
);

create table if not exists fleet.worker (
    catalog_id integer not null, worker_id bigint not null, url text, router text, engine text, version text, role text, health text,
    model text, profilable integer, reason text, remedy text, trace_dir text, last_seen_at timestamptz,
    primary key (catalog_id, worker_id)
);

create table if not exists fleet.session (
    catalog_id integer not null, session_id bigint not null, state text, router text, dialect text, fleet text, options jsonb,
    labels jsonb, requested_at timestamptz, requested_by text, start_at timestamptz, starts_sent_at timestamptz,
    recording_at timestamptz, stop_at timestamptz, hard_stop_at timestamptz, stopped_at timestamptz, finished_at timestamptz,
    skew_ns bigint, reason text, remedy text, pinned integer, remarks jsonb, name text, skipped jsonb, uuid uuid, coordinator uuid,
    coordinator_name text, skew_error_ns bigint,
    primary key (catalog_id, session_id)
);
create index if not exists session_uuid on fleet.session (uuid);
create index if not exists session_requested on fleet.session (requested_at);

create table if not exists fleet.target (
    catalog_id integer not null, target_id bigint not null, session_id bigint, worker text, engine text, version text, role text,
    state text, profile_id text, output_dir text, trace_dir text, ranks_expected bigint, stop_pending integer,
    start_sent_at timestamptz, start_answered_at timestamptz, start_status bigint, stop_sent_at timestamptz,
    stop_answered_at timestamptz, stop_status bigint, failure text, remedy text,
    host text, host_uuid uuid,                             -- null: the catalog's
    clock_offset_ns bigint, clock_error_ns bigint, clock_rtt_ns bigint, clock_maxerror_ns bigint, clock_unsync integer,
    primary key (catalog_id, target_id)
);
create index if not exists target_session on fleet.target (catalog_id, session_id);

-- Partitions by month are made by fleet.make_partitions(); the default one takes the rows of clocks that are wrong by years.
create table if not exists fleet.trace (
    catalog_id integer not null, trace_id bigint not null, session_id bigint, target_id bigint, worker text, kind text, state text,
    reason text, name text, path text, origin text, stored bigint, size bigint, sha256 text, format text, uncompressed bigint,
    rank bigint, dp bigint, pp bigint, tp bigint, ep bigint, stage text, world_size bigint, pid bigint, devices bigint,
    device_name text, events bigint, first_event_at timestamptz, span_ns bigint, candidates jsonb, owner_uid bigint,
    recorded_at timestamptz not null, collected_at timestamptz not null, pinned bigint, labels jsonb, last_event_at timestamptz,
    columns text, columns_size bigint, columns_version bigint, columns_reason text, slices bigint, gpu_slices bigint, threads bigint,
    flows bigint, instance text, disk_size bigint, uuid uuid, archived_at timestamptz, archive_key text, defects jsonb,
    primary key (catalog_id, trace_id, collected_at)
) partition by range (collected_at);
create table if not exists fleet.trace_default partition of fleet.trace default;
create index if not exists trace_recorded on fleet.trace using brin (recorded_at) with (pages_per_range = 16);
create index if not exists trace_session on fleet.trace (catalog_id, session_id);
create index if not exists trace_uuid on fleet.trace (uuid);

-- The sums of a trace are one row: questions over months read few bytes of each trace. Positions of the arrays belong together.
create table if not exists fleet.trace_sum (
    catalog_id integer not null, trace_id bigint not null, collected_at timestamptz not null, recorded_at timestamptz not null,
    trace_uuid uuid, session_uuid uuid, worker text, rank bigint,
    kernel_ids integer[], kernel_counts bigint[], kernel_sums bigint[], kernel_mins bigint[], kernel_maxs bigint[],
    categories jsonb, steps jsonb, findings jsonb,
    primary key (catalog_id, trace_id, collected_at)
) partition by range (collected_at);
create table if not exists fleet.trace_sum_default partition of fleet.trace_sum default;
create index if not exists trace_sum_recorded on fleet.trace_sum using brin (recorded_at) with (pages_per_range = 16);

-- Texts that many traces share. A name may be longer than an index takes.
create table if not exists fleet.name (
    name_id     integer generated always as identity primary key,
    name        text not null,
    hash        uuid not null generated always as (md5(name)::uuid) stored unique
);

create table if not exists fleet.run (
    catalog_id integer not null, run_id bigint not null, session_id bigint, state text, router text, dialect text, fleet text,
    model text, workload jsonb, targets jsonb, labels jsonb, requested_at timestamptz, requested_by text, started_at timestamptz,
    ended_at timestamptz, success bigint, incomplete bigint, error bigint, requests_per_s double precision,
    output_tokens_per_s double precision, ttft_p50_ms double precision, ttft_p99_ms double precision, itl_p50_ms double precision,
    itl_p99_ms double precision, tpot_p50_ms double precision, tpot_p99_ms double precision, e2e_p50_ms double precision,
    e2e_p99_ms double precision, reason text, remedy text, notes jsonb, warmed jsonb, summary jsonb, uuid uuid,
    primary key (catalog_id, run_id)
);

create table if not exists fleet.function (
    catalog_id integer not null, function_id bigint not null, trace_id bigint, session_id bigint, worker text, moment text, name text,
    file text, line bigint, calls bigint, tsub_ns bigint, ttot_ns bigint, tavg_ns bigint,
    primary key (catalog_id, function_id)
);

create table if not exists fleet.event (
    catalog_id integer not null, event_id bigint not null, at timestamptz not null, kind text, actor text, session_id bigint,
    target_id bigint, trace_id bigint, run_id bigint, text text,
    primary key (catalog_id, event_id, at)
) partition by range (at);
create table if not exists fleet.event_default partition of fleet.event default;

-- -- Functions ---------------------------------------------------------------------------------------------------------

-- Makes the monthly partitions of a table for these times. Months in which no clock that is right can be stay in the default
-- partition, and so do those whose partition cannot be made now: a long query holds the table, or the default one has rows of it.
create or replace function fleet.make_partitions(p_table text, p_times timestamptz[]) returns void
language plpgsql set search_path = fleet, pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
    m timestamptz;
    is_late boolean;
begin
    for m in select distinct date_trunc('month', t) from unnest(p_times) t
             where t >= '2024-01-01' and t < now() + interval '32 days' order by 1 loop
        continue when to_regclass(format('fleet.%I', p_table || to_char(m, '_YYYY_MM'))) is not null;
        -- The month has begun without a partition: it stays without, and no batch waits for one. The exception gives the lock of the
        -- default partition back, for which another one would wait who makes a partition, while this one waits for him.
        begin
            execute format('select exists (select from fleet.%I where %I >= $1 and %2$I < $1 + interval ''1 month'')', p_table || '_default',
                           case p_table when 'event' then 'at' else 'collected_at' end) into is_late using m;
            raise sqlstate 'FL001';
        exception when sqlstate 'FL001' then
            null;
        end;
        continue when is_late;
        begin
            set local lock_timeout = '1s';
            perform pg_advisory_xact_lock(hashtext('fleet.make_partitions'));
            -- Made meanwhile by the one that had the lock, which those that wait for it get at once. to_regclass() still remembers that
            -- there was none.
            if exists (select from pg_class where relnamespace = 'fleet'::regnamespace and relname = p_table || to_char(m, '_YYYY_MM')) then
                raise sqlstate 'FL001';
            end if;
            execute format('create table if not exists fleet.%I partition of fleet.%I for values from (%L) to (%L)',
                           p_table || to_char(m, '_YYYY_MM'), p_table, m, m + interval '1 month');
        exception when lock_not_available or check_violation or sqlstate 'FL001' then
            null;
        end;
        set local lock_timeout = '10s';
    end loop;
end $$;

-- The rows without those that were expired. Only sessions and runs have requested_at.
create or replace function fleet.kept(p_rows jsonb, p_keep_from timestamptz) returns jsonb
language sql stable set search_path = fleet, pg_catalog, pg_temp as $$
    select case when p_keep_from = '-infinity' then p_rows
                else (select jsonb_agg(e) from jsonb_array_elements(p_rows) e
                      where coalesce((e ->> 'requested_at')::timestamptz >= p_keep_from, true)) end
$$;

-- Replaces the rows of a table whose ids are given, or which are deleted.
create or replace function fleet.put_rows(p_table text, p_key text, p_catalog integer, p_rows jsonb, p_deleted jsonb) returns void
language plpgsql set search_path = fleet, pg_catalog, pg_temp as $$
begin
    execute format('delete from fleet.%I t where t.catalog_id = $1 and t.%I = any (array(select (e ->> $2)::bigint '
                   'from jsonb_array_elements($3) e union all select d::bigint from jsonb_array_elements($4) d))', p_table, p_key)
        using p_catalog, p_key, coalesce(p_rows, '[]'), coalesce(p_deleted, '[]');
    if p_rows is not null then
        execute format('insert into fleet.%I select (jsonb_populate_record(null::fleet.%I, e || jsonb_build_object(''catalog_id'', $1))).* '
                       'from jsonb_array_elements($2) e', p_table, p_table)
            using p_catalog, p_rows;
    end if;
end $$;

-- What a host sends as lists: null where it is none. A list of which the views could not read a member raises a data exception, so that
-- apply() refuses the row instead of one host making a view unreadable for all.
create or replace function fleet.valid_categories(p jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when jsonb_typeof(p) = 'array' then
        case when (select count(*) from jsonb_to_recordset(p) as c (category text, count bigint, sum_ns bigint)) > 0 then p end end
$$;
create or replace function fleet.valid_steps(p jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when jsonb_typeof(p) = 'array' then
        case when (select count(*) from jsonb_to_recordset(p)
                   as s (phase text, steps bigint, sum_ns bigint, p50_ns bigint, p99_ns bigint, max_ns bigint)) > 0 then p end end
$$;
create or replace function fleet.valid_findings(p jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when jsonb_typeof(p) = 'array' then
        case when (select count(*) from jsonb_to_recordset(p)
                   as f (number bigint, rule text, label text, what text, cost_ns bigint, share double precision)) > 0 then p end end
$$;
create or replace function fleet.valid_defects(p jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when jsonb_typeof(p) = 'array' then
        case when (select count(*) from jsonb_to_recordset(p) as d (kind text, count bigint, "offset" bigint, text text)) > 0 then p end end
$$;

-- Traces with their sums. Expired ones are left out.
create or replace function fleet.put_traces(p_catalog integer, p_rows jsonb, p_deleted jsonb, p_keep_from timestamptz) returns void
language plpgsql set search_path = fleet, pg_catalog, pg_temp as $$
declare
    ids bigint[] := array(select (e ->> 'trace_id')::bigint from jsonb_array_elements(coalesce(p_rows, '[]')) e
                          union all select d::bigint from jsonb_array_elements(coalesce(p_deleted, '[]')) d);
    kept jsonb := (select jsonb_agg(e || jsonb_build_object('catalog_id', p_catalog, 'defects', fleet.valid_defects(e -> 'defects'))) from jsonb_array_elements(p_rows) e
                   where (e ->> 'collected_at')::timestamptz >= p_keep_from);
begin
    delete from fleet.trace t where t.catalog_id = p_catalog and t.trace_id = any (ids);
    delete from fleet.trace_sum t where t.catalog_id = p_catalog and t.trace_id = any (ids);
    if kept is null then
        return;
    end if;
    insert into fleet.trace select * from jsonb_populate_recordset(null::fleet.trace, kept);
    -- In one order, so that two senders of the same new names do not wait for each other.
    insert into fleet.name (name)
        select distinct s ->> 0 from jsonb_array_elements(kept) e, jsonb_array_elements(e -> 'kernel_sums') s
        where not exists (select from fleet.name n where n.hash = md5(s ->> 0)::uuid) order by 1
        on conflict (hash) do nothing;
    insert into fleet.trace_sum (catalog_id, trace_id, collected_at, recorded_at, trace_uuid, session_uuid, worker, rank,
                                 kernel_ids, kernel_counts, kernel_sums, kernel_mins, kernel_maxs, categories, steps, findings)
        select p_catalog, (e ->> 'trace_id')::bigint, (e ->> 'collected_at')::timestamptz, (e ->> 'recorded_at')::timestamptz,
               (e ->> 'uuid')::uuid, (e ->> 'session_uuid')::uuid, e ->> 'worker', (e ->> 'rank')::bigint,
               k.ids, k.counts, k.sums, k.mins, k.maxs, fleet.valid_categories(e -> 'category_sums'),
               fleet.valid_steps(e -> 'step_sums'), fleet.valid_findings(e -> 'findings')
        from jsonb_array_elements(kept) e
        cross join lateral (
            select array_agg(n.name_id order by o), array_agg((s ->> 1)::bigint order by o), array_agg((s ->> 2)::bigint order by o),
                   array_agg((s ->> 3)::bigint order by o), array_agg((s ->> 4)::bigint order by o)
            from jsonb_array_elements(e -> 'kernel_sums') with ordinality x (s, o) join fleet.name n on n.hash = md5(s ->> 0)::uuid
        ) k (ids, counts, sums, mins, maxs)
        where k.ids is not null or e ? 'category_sums' or e ? 'step_sums' or e ? 'findings';
end $$;

-- So that profd can name what is older or newer than itself.
create or replace function fleet.schema_version() returns integer
language sql stable security definer set search_path = fleet, pg_catalog, pg_temp as $$ select version from fleet.version $$;

-- Takes the changes p_from < number <= p_to of a catalog, and answers the number of the last change that it has. A repeated or
-- early batch changes nothing: the caller goes on from the answer. Without p only the answer is given.
create or replace function fleet.apply(p_uuid uuid, p_host text, p_from bigint, p_to bigint, p jsonb) returns bigint
language plpgsql security definer set search_path = fleet, pg_catalog, pg_temp as $$
declare
    c fleet.catalog;
    deleted jsonb := p -> 'deleted';
    keep_from timestamptz;
    part record;
begin
    -- Its lock: two senders of one catalog take turns. Behind a statement that hangs, none waits for long, and connections do not pile up.
    set local lock_timeout = '10s';
    insert into fleet.catalog as k (uuid, host) values (p_uuid, p_host)
        on conflict (uuid) do update set host = excluded.host, seen_at = now() returning * into c;
    if p is null or p_from <> c.applied or p_to < p_from then
        return c.applied;
    end if;
    keep_from := coalesce((select v.keep_from from fleet.version v), '-infinity');

    -- Before any other lock on these tables.
    if p ? 'traces' then
        select array_agg((e ->> 'collected_at')::timestamptz) as times into part from jsonb_array_elements(p -> 'traces') e
            where (e ->> 'collected_at')::timestamptz >= keep_from;
        perform fleet.make_partitions('trace', part.times), fleet.make_partitions('trace_sum', part.times);
    end if;
    if p ? 'events' then
        select array_agg((e ->> 'at')::timestamptz) as times into part from jsonb_array_elements(p -> 'events') e
            where (e ->> 'at')::timestamptz >= keep_from;
        perform fleet.make_partitions('event', part.times);
    end if;

    for part in select * from (values ('routers', 'router', 'router_id'), ('workers', 'worker', 'worker_id'),
                                      ('sessions', 'session', 'session_id'), ('targets', 'target', 'target_id'),
                                      ('runs', 'run', 'run_id'), ('functions', 'function', 'function_id')) v (member, name, key) loop
        if p ? part.member or deleted ? part.member then
            perform fleet.put_rows(part.name, part.key, c.catalog_id, fleet.kept(p -> part.member, keep_from), deleted -> part.member);
        end if;
    end loop;
    if p ? 'traces' or deleted ? 'traces' then
        perform fleet.put_traces(c.catalog_id, p -> 'traces', deleted -> 'traces', keep_from);
    end if;
    -- Events never change, and are not deleted with the catalog's old ones.
    if p ? 'events' then
        insert into fleet.event
            select (jsonb_populate_record(null::fleet.event, e || jsonb_build_object('catalog_id', c.catalog_id))).*
            from jsonb_array_elements(p -> 'events') e where (e ->> 'at')::timestamptz >= keep_from
            on conflict do nothing;
    end if;

    -- A catalog restored from a backup has the rows of the one it replaces; where that one still sends, both are shown.
    if p_from = 0 and p ? 'replaces' then
        update fleet.catalog set replaced_by = p_uuid where uuid = (p ->> 'replaces')::uuid and uuid <> p_uuid;
    end if;
    update fleet.catalog set applied = p_to, rows = rows + coalesce((p ->> 'rows')::bigint, 0), replaced_by = null,
                             catalog_version = (p ->> 'catalog_version')::integer, profd = p ->> 'profd',
                             last = greatest((p ->> 'last')::bigint, p_to), changed_at = (p ->> 'changed_at')::timestamptz
        where catalog_id = c.catalog_id;
    return p_to;
end $$;

-- Deletes what was collected, requested or logged before a time, and the rows of replaced catalogs. Answers the number of rows and of
-- dropped partitions.
create or replace function fleet.expire(p_before timestamptz, out rows bigint, out partitions integer)
language plpgsql set search_path = fleet, pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
    replaced integer[] := array(select catalog_id from fleet.catalog where replaced_by is not null);
    part record;
    n bigint;
begin
    rows := 0;
    partitions := 0;
    update fleet.version set keep_from = greatest(keep_from, p_before);
    for part in select c.oid::regclass as name, p.relname as parent
                from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
                where p.relnamespace = 'fleet'::regnamespace and p.relname in ('trace', 'trace_sum', 'event')
                  and c.relname ~ '_\d{4}_\d{2}$'
                  and (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month') at time zone 'UTC' <= p_before loop
        if part.parent <> 'trace_sum' then
            execute format('select count(*) from %s', part.name) into n;
            rows := rows + n;
        end if;
        execute format('drop table %s', part.name);
        partitions := partitions + 1;
    end loop;
    for part in select * from (values ('trace', 'collected_at', true), ('trace_sum', 'collected_at', false), ('event', 'at', true),
                                      ('function', null, true), ('target', null, true), ('session', 'requested_at', true),
                                      ('run', 'requested_at', true), ('router', null, true), ('worker', null, true))
                      v (name, at, counted) loop
        execute format('delete from fleet.%I where catalog_id = any ($1) %s', part.name,
                       case when part.at is null then '' else format('or %I < $2', part.at) end) using replaced, p_before;
        get diagnostics n = row_count;
        rows := rows + case when part.counted then n else 0 end;
    end loop;
    -- What belonged to those sessions.
    delete from fleet.target t where not exists (
        select from fleet.session s where s.catalog_id = t.catalog_id and s.session_id = t.session_id);
    get diagnostics n = row_count;
    rows := rows + n;
    delete from fleet.function f where f.session_id is not null and not exists (
        select from fleet.session s where s.catalog_id = f.catalog_id and s.session_id = f.session_id);
    get diagnostics n = row_count;
    rows := rows + n;
    delete from fleet.catalog where catalog_id = any (replaced);
end $$;

-- -- Views -------------------------------------------------------------------------------------------------------------

drop view if exists fleet.catalogs, fleet.routers, fleet.workers, fleet.sessions, fleet.targets, fleet.traces, fleet.trace_categories,
    fleet.trace_defects, fleet.runs, fleet.functions, fleet.events, fleet.kernel_sums, fleet.category_sums, fleet.step_sums, fleet.finding;

create view fleet.catalogs as
    select uuid as catalog, host, profd, catalog_version, applied, last - applied as lag, rows, changed_at, first_seen_at, seen_at,
           replaced_by
    from fleet.catalog;

create view fleet.routers as
    select k.uuid as catalog, k.host, t.router_id, t.url, t.dialect, t.fleet, t.first_seen_at, t.last_seen_at, t.last_used_at
    from fleet.router t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

create view fleet.workers as
    select k.uuid as catalog, k.host, t.worker_id, t.url, t.router, t.engine, t.version, t.role, t.health, t.model, t.profilable, t.reason,
           t.remedy, t.trace_dir, t.last_seen_at
    from fleet.worker t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

create view fleet.sessions as
    select k.uuid as catalog, k.host, t.session_id, t.state, t.router, t.dialect, t.fleet, t.options, t.labels, t.requested_at,
           t.requested_by, t.start_at, t.starts_sent_at, t.recording_at, t.stop_at, t.hard_stop_at, t.stopped_at, t.finished_at,
           t.skew_ns, t.reason, t.remedy, t.pinned, t.remarks, t.name, t.skipped, t.uuid, t.coordinator, t.coordinator_name,
           t.skew_error_ns
    from fleet.session t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

-- A host, other than that of the catalog, whose catalog has a trace with that content; '' where none has. An error where the mirror
-- cannot know: rows that it dropped by age may still be those of a host.
create or replace function fleet.content_holder(p_uuid uuid, p_sha256 text) returns text
language plpgsql security definer set search_path = fleet, pg_catalog, pg_temp as $$
declare
    found_at text := (select k.host from fleet.trace t join fleet.catalog k using (catalog_id)
                      where t.sha256 = p_sha256 and k.uuid <> p_uuid and k.replaced_by is null limit 1);
begin
    if found_at is null and exists (select from fleet.version v where v.keep_from > '-infinity') then
        raise exception 'the mirror has no rows from before %', (select v.keep_from from fleet.version v);
    end if;
    return coalesce(found_at, '');
end $$;

create view fleet.targets as
    select k.uuid as catalog, coalesce(t.host, k.host) as host, t.target_id, t.session_id, t.worker, t.engine, t.version, t.role, t.state, t.profile_id,
           t.output_dir, t.trace_dir, t.ranks_expected, t.stop_pending, t.start_sent_at, t.start_answered_at, t.start_status,
           t.stop_sent_at, t.stop_answered_at, t.stop_status, t.failure, t.remedy, coalesce(t.host_uuid, k.uuid) as host_uuid, t.clock_offset_ns,
           t.clock_error_ns, t.clock_rtt_ns, t.clock_maxerror_ns, t.clock_unsync
    from fleet.target t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

create view fleet.traces as
    select k.uuid as catalog, k.host, t.trace_id, t.session_id, t.target_id, t.worker, t.kind, t.state, t.reason, t.name, t.path,
           t.origin, t.stored, t.size, t.sha256, t.format, t.uncompressed, t.rank, t.dp, t.pp, t.tp, t.ep, t.stage, t.world_size, t.pid,
           t.devices, t.device_name, t.events, t.first_event_at, t.span_ns, t.candidates, t.owner_uid, t.recorded_at, t.collected_at,
           t.pinned, t.labels, t.last_event_at, t.columns, t.columns_size, t.columns_version, t.columns_reason, t.slices, t.gpu_slices,
           t.threads, t.flows, t.instance, t.disk_size, t.uuid, t.archived_at, t.archive_key
    from fleet.trace t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

create view fleet.trace_categories as
    select k.uuid as catalog, k.host, t.trace_id, c.category, c.count, c.sum_ns
    from fleet.trace_sum t join fleet.catalog k using (catalog_id)
    cross join lateral jsonb_to_recordset(t.categories) as c (category text, count bigint, sum_ns bigint) where k.replaced_by is null;

create view fleet.trace_defects as
    select k.uuid as catalog, k.host, t.trace_id, d.kind, d.count, d."offset", d.text
    from fleet.trace t join fleet.catalog k using (catalog_id)
    cross join lateral jsonb_to_recordset(t.defects) as d (kind text, count bigint, "offset" bigint, text text)
    where k.replaced_by is null;

create view fleet.runs as
    select k.uuid as catalog, k.host, t.run_id, t.session_id, t.state, t.router, t.dialect, t.fleet, t.model, t.workload, t.targets,
           t.labels, t.requested_at, t.requested_by, t.started_at, t.ended_at, t.success, t.incomplete, t.error, t.requests_per_s,
           t.output_tokens_per_s, t.ttft_p50_ms, t.ttft_p99_ms, t.itl_p50_ms, t.itl_p99_ms, t.tpot_p50_ms, t.tpot_p99_ms, t.e2e_p50_ms,
           t.e2e_p99_ms, t.reason, t.remedy, t.notes, t.warmed, t.summary, t.uuid
    from fleet.run t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

create view fleet.functions as
    select k.uuid as catalog, k.host, t.trace_id, t.session_id, t.worker, t.moment, t.name, t.file, t.line, t.calls, t.tsub_ns,
           t.ttot_ns, t.tavg_ns
    from fleet.function t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

create view fleet.events as
    select k.uuid as catalog, k.host, t.event_id, t.at, t.kind, t.actor, t.session_id, t.target_id, t.trace_id, t.run_id, t.text
    from fleet.event t join fleet.catalog k using (catalog_id) where k.replaced_by is null;

create view fleet.kernel_sums as
    select k.uuid as catalog, k.host, t.trace_id, t.trace_uuid, t.session_uuid, t.worker, t.rank, t.recorded_at, t.collected_at, s.position,
           n.name, s.count, s.sum_ns, s.min_ns, s.max_ns
    from fleet.trace_sum t join fleet.catalog k using (catalog_id)
    cross join lateral unnest(t.kernel_ids, t.kernel_counts, t.kernel_sums, t.kernel_mins, t.kernel_maxs)
        with ordinality as s (name_id, count, sum_ns, min_ns, max_ns, position)
    join fleet.name n on n.name_id = s.name_id where k.replaced_by is null;

create view fleet.category_sums as
    select k.uuid as catalog, k.host, t.trace_id, t.trace_uuid, t.session_uuid, t.worker, t.rank, t.recorded_at, t.collected_at,
           c.category, c.count, c.sum_ns
    from fleet.trace_sum t join fleet.catalog k using (catalog_id)
    cross join lateral jsonb_to_recordset(t.categories) as c (category text, count bigint, sum_ns bigint) where k.replaced_by is null;

create view fleet.step_sums as
    select k.uuid as catalog, k.host, t.trace_id, t.trace_uuid, t.session_uuid, t.worker, t.rank, t.recorded_at, t.collected_at,
           s.phase, s.steps, s.sum_ns, s.p50_ns, s.p99_ns, s.max_ns
    from fleet.trace_sum t join fleet.catalog k using (catalog_id)
    cross join lateral jsonb_to_recordset(t.steps)
        as s (phase text, steps bigint, sum_ns bigint, p50_ns bigint, p99_ns bigint, max_ns bigint) where k.replaced_by is null;

create view fleet.finding as
    select k.uuid as catalog, k.host, t.trace_id, t.trace_uuid, t.session_uuid, t.worker, t.rank, t.recorded_at, t.collected_at,
           f.number, f.rule, f.label, f.what, f.cost_ns, f.share
    from fleet.trace_sum t join fleet.catalog k using (catalog_id)
    cross join lateral jsonb_to_recordset(t.findings)
        as f (number bigint, rule text, label text, what text, cost_ns bigint, share double precision)
    where k.replaced_by is null;

-- -- Permissions -------------------------------------------------------------------------------------------------------

revoke all on all tables in schema fleet from public;
revoke all on all functions in schema fleet from public;
grant usage on schema fleet to fleet_writer, fleet_reader;
grant execute on function fleet.apply, fleet.content_holder to fleet_writer;
grant execute on function fleet.schema_version to fleet_writer, fleet_reader;
grant select on fleet.catalogs, fleet.routers, fleet.workers, fleet.sessions, fleet.targets, fleet.traces, fleet.trace_categories,
    fleet.trace_defects, fleet.runs, fleet.functions, fleet.events, fleet.kernel_sums, fleet.category_sums, fleet.step_sums, fleet.finding
    to fleet_reader;

/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/delivery.h"

#include "base/alloc.h"
#include "base/text.h"
#include "base/uuid.h"
#include "daemon/catalog/records.h"
#include <errno.h>

#define LIST_MAX   64 /* labels, candidates and defects of one trace; remarks of a session */
#define STATUS_MIN 100
#define STATUS_MAX 599

/* -- Values of an answer -- */

/* A text without hidden characters, of at most DELIVERY_TEXT_MAX bytes; NULL: there is none. The caller frees it. */
static char *delivered_text(const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || !*text || json_string_length(value) > DELIVERY_TEXT_MAX)
        return NULL;
    return text_clean(text, false);
}

static char *delivered_text_of(const json_t *object, const char *key)
{
    return delivered_text(json_object_get(object, key));
}

/* RECORD_NONE where it is absent, no integer, or out of bounds. */
static int64_t delivered_number(const json_t *object, const char *key, int64_t min, int64_t max)
{
    const json_t *value = json_object_get(object, key);
    int64_t n = json_is_integer(value) ? json_integer_value(value) : RECORD_NONE;

    return n >= min && n <= max ? n : RECORD_NONE;
}

/* Moments on a monotonic clock are positive. */
static int64_t delivered_moment(const json_t *object, const char *key)
{
    return delivered_number(object, key, 1, INT64_MAX / 2);
}

static bool is_hex_text(const char *text, size_t size)
{
    return text && strlen(text) == size && strspn(text, "0123456789abcdef") == size;
}

/* -- Facts of a trace -- */

enum fact_kind {
    FACT_TEXT,
    FACT_SHA256,
    FACT_COUNT,  /* 0 or more */
    FACT_BYTES,  /* of a file: 0 to DELIVERY_FILE_BYTES_MAX */
    FACT_NUMBER, /* any integer */
    FACT_BOOL,
    FACT_KIND,
    FACT_STATE,
    FACT_NUMBERS, /* an object of numbers */
    FACT_TEXTS,   /* an object of texts */
    FACT_LIST,    /* an array of texts */
    FACT_DEFECTS,
};

/* The members of Trace in openapi.yaml but its ids. */
static const struct {
    const char *name;
    enum fact_kind kind;
} facts[] = {
    {"worker", FACT_TEXT},           {"kind", FACT_KIND},           {"state", FACT_STATE},
    {"reason", FACT_TEXT},           {"name", FACT_TEXT},           {"path", FACT_TEXT},
    {"origin", FACT_TEXT},           {"stored", FACT_BOOL},         {"size", FACT_BYTES},
    {"sha256", FACT_SHA256},         {"format", FACT_TEXT},         {"uncompressed", FACT_BYTES},
    {"ranks", FACT_NUMBERS},         {"stage", FACT_TEXT},          {"instance", FACT_TEXT},
    {"world_size", FACT_COUNT},      {"pid", FACT_COUNT},           {"devices", FACT_COUNT},
    {"device_name", FACT_TEXT},      {"events", FACT_COUNT},        {"first_event_at", FACT_NUMBER},
    {"last_event_at", FACT_NUMBER},  {"span_ns", FACT_COUNT},       {"candidates", FACT_LIST},
    {"owner_uid", FACT_COUNT},       {"recorded_at", FACT_NUMBER},  {"collected_at", FACT_NUMBER},
    {"labels", FACT_TEXTS},          {"columns", FACT_TEXT},        {"columns_size", FACT_BYTES},
    {"columns_version", FACT_COUNT}, {"columns_reason", FACT_TEXT}, {"slices", FACT_COUNT},
    {"gpu_slices", FACT_COUNT},      {"threads", FACT_COUNT},       {"flows", FACT_COUNT},
    {"defects", FACT_DEFECTS},       {"pinned", FACT_BOOL},         {"disk_size", FACT_BYTES},
    {"archived_at", FACT_NUMBER},    {"archive_key", FACT_TEXT},
};

static json_t *fact_text(const json_t *value)
{
    _cleanup_(freep) char *text = delivered_text(value);
    return text ? json_string(text) : NULL;
}

static json_t *fact_number(const json_t *value, int64_t min)
{
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) == RECORD_NONE)
        return NULL;
    return json_integer(json_integer_value(value));
}

/* Of an object, those members that are numbers or texts, at most LIST_MAX. */
static json_t *fact_object(const json_t *value, bool of_numbers)
{
    json_t *copy = json_is_object(value) ? json_object() : NULL, *member;
    const char *name;

    json_object_foreach((json_t *)value, name, member) {
        _cleanup_(freep) char *clean = text_clean(name, false);
        json_t *kept = of_numbers ? fact_number(member, INT64_MIN) : fact_text(member);
        if (kept && json_object_size(copy) < LIST_MAX && strlen(clean) <= DELIVERY_TEXT_MAX)
            json_object_set_new(copy, clean, kept);
        else
            json_decref(kept);
    }
    return copy;
}

static json_t *fact_list(const json_t *value)
{
    json_t *copy = json_is_array(value) ? json_array() : NULL;

    for (size_t i = 0; i < MIN(json_array_size(value), (size_t)LIST_MAX); i++) {
        json_t *text = fact_text(json_array_get(value, i));
        if (text)
            json_array_append_new(copy, text);
    }
    return copy;
}

static json_t *fact_defects(const json_t *value)
{
    json_t *copy = json_is_array(value) ? json_array() : NULL;

    for (size_t i = 0; i < MIN(json_array_size(value), (size_t)LIST_MAX); i++) {
        const json_t *defect = json_array_get(value, i);
        json_t *kept = json_object();
        json_object_set_new(kept, "kind", fact_text(json_object_get(defect, "kind")));
        json_object_set_new(kept, "count", fact_number(json_object_get(defect, "count"), 0));
        json_object_set_new(kept, "offset", fact_number(json_object_get(defect, "offset"), 0));
        json_object_set_new(kept, "text", fact_text(json_object_get(defect, "text")));
        json_array_append_new(copy, kept);
    }
    return copy;
}

/* NULL where the value is not of that kind. */
static json_t *fact_copy(enum fact_kind kind, const json_t *value)
{
    const char *text = json_string_value(value);

    switch (kind) {
    case FACT_TEXT:
        return fact_text(value);
    case FACT_SHA256:
        return is_hex_text(text, 64) ? json_string(text) : NULL;
    case FACT_COUNT:
        return fact_number(value, 0);
    case FACT_BYTES:
        return json_integer_value(value) <= DELIVERY_FILE_BYTES_MAX ? fact_number(value, 0) : NULL;
    case FACT_NUMBER:
        return fact_number(value, INT64_MIN);
    case FACT_BOOL:
        return json_is_boolean(value) ? json_boolean(json_is_true(value)) : NULL;
    case FACT_KIND:
        return text && trace_kind_from_name(text) >= 0 ? json_string(text) : NULL;
    case FACT_STATE:
        return text && trace_state_from_name(text) >= 0 ? json_string(text) : NULL;
    case FACT_NUMBERS:
        return fact_object(value, true);
    case FACT_TEXTS:
        return fact_object(value, false);
    case FACT_LIST:
        return fact_list(value);
    case FACT_DEFECTS:
        return fact_defects(value);
    }
    return NULL;
}

json_t *trace_facts_check(const json_t *trace)
{
    static const char *const needed[] = {"kind", "state", "name", "recorded_at"};
    json_t *checked = json_is_object(trace) ? json_object() : NULL;

    for (size_t i = 0; i < ARRAY_SIZE(facts) && checked; i++) {
        json_t *copy = fact_copy(facts[i].kind, json_object_get(trace, facts[i].name));
        if (copy)
            json_object_set_new(checked, facts[i].name, copy);
    }
    for (size_t i = 0; i < ARRAY_SIZE(needed) && checked; i++)
        if (!json_object_get(checked, needed[i])) {
            json_decref(checked);
            return NULL;
        }
    return checked;
}

/* As text; what takes most and matters least is left out of facts that are too long. The caller frees it. */
static char *facts_text(json_t *checked)
{
    static const char *const first_out[] = {"candidates", "defects", "labels", "ranks", NULL};
    char *text = json_dumps(checked, JSON_COMPACT);

    for (const char *const *key = first_out; *key && text && strlen(text) > DELIVERY_FACTS_MAX; key++) {
        json_object_del(checked, *key);
        free(text);
        text = json_dumps(checked, JSON_COMPACT);
    }
    if (text && strlen(text) > DELIVERY_FACTS_MAX)
        free(TAKE_PTR(text));
    return text;
}

/* -- The answer -- */

int delivered_trace_parse(const json_t *trace, struct delivered_trace *ret)
{
    const char *uuid = json_get_str(trace, "uuid"), *id = json_get_str(trace, "trace");
    _cleanup_json_ checked = trace_facts_check(trace);

    *ret = (struct delivered_trace){0};
    if (!checked || !uuid_is(uuid) || !id || parse_ref(id, 't', &ret->remote_id) != 't')
        return -EINVAL;
    snprintf(ret->uuid, sizeof(ret->uuid), "%s", uuid);
    ret->recorded_at = json_get_int(checked, "recorded_at", 0);
    ret->worker = xstrdup(json_get_str(checked, "worker"));
    ret->facts = facts_text(checked);
    return ret->facts ? 0 : -EINVAL;
}

static int delivery_parse_target(const json_t *target, struct delivered_target *ret)
{
    const char *state = json_get_str(target, "state");

    ret->worker = delivered_text_of(target, "worker");
    int value = state ? state_from_name(state) : -1;
    if (!ret->worker || value < 0)
        return -EINVAL;
    ret->state = (enum state)value;
    ret->ranks_expected = MAX(delivered_number(target, "ranks_expected", 0, 1 << 20), INT64_C(0));
    ret->start_sent_mono_ns = delivered_moment(target, "start_sent_mono_ns");
    ret->start_answered_mono_ns = delivered_moment(target, "start_answered_mono_ns");
    ret->stop_sent_mono_ns = delivered_moment(target, "stop_sent_mono_ns");
    ret->stop_answered_mono_ns = delivered_moment(target, "stop_answered_mono_ns");
    ret->start_status = delivered_number(target, "start_status", STATUS_MIN, STATUS_MAX);
    ret->stop_status = delivered_number(target, "stop_status", STATUS_MIN, STATUS_MAX);
    ret->bytes_seen = MAX(delivered_number(target, "bytes_seen", 0, INT64_MAX), INT64_C(0));
    ret->output_dir = delivered_text_of(target, "output_dir");
    ret->trace_dir = delivered_text_of(target, "trace_dir");
    ret->profile_id = delivered_text_of(target, "profile_id");
    ret->failure = delivered_text_of(target, "failure");
    ret->remedy = delivered_text_of(target, "remedy");
    return 0;
}

static json_t *delivery_remarks(const json_t *list)
{
    static const char *const keys[] = {"worker", "option", "text", "remedy"};
    json_t *remarks = json_array_size(list) > 0 ? json_array() : NULL;

    for (size_t i = 0; i < MIN(json_array_size(list), (size_t)LIST_MAX); i++) {
        json_t *remark = json_object();
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
            json_t *text = fact_text(json_object_get(json_array_get(list, i), keys[k]));
            if (text)
                json_object_set_new(remark, keys[k], text);
        }
        json_array_append_new(remarks, remark);
    }
    return remarks;
}

int delivery_parse(const json_t *answer, struct delivery *ret, const char **ret_reason)
{
    const json_t *targets = json_object_get(answer, "targets"), *traces = json_object_get(answer, "traces");
    const json_t *session = json_object_get(answer, "session");

    *ret = (struct delivery){0};
    *ret_reason = "no answer about a lease";
    ret->state = delivered_text_of(answer, "state");
    if (!ret->state || (targets && !json_is_array(targets)) || (traces && !json_is_array(traces)))
        return -EINVAL;
    *ret_reason = "too many targets or traces";
    if (json_array_size(targets) > DELIVERY_TARGETS_MAX || json_array_size(traces) > DELIVERY_TRACES_MAX)
        return -EINVAL;
    ret->armed = json_get_bool(answer, "armed", false);
    ret->over = json_get_bool(answer, "over", false);
    ret->next = MAX(delivered_number(answer, "next", 0, INT64_MAX), INT64_C(0));
    ret->session = delivered_text_of(session, "session");
    ret->reason = delivered_text_of(session, "reason");
    ret->remedy = delivered_text_of(session, "remedy");
    ret->remarks = delivery_remarks(json_object_get(session, "remarks"));
    ret->targets = xcalloc(json_array_size(targets) + 1, sizeof(*ret->targets));
    ret->traces = xcalloc(json_array_size(traces) + 1, sizeof(*ret->traces));
    *ret_reason = "a target without worker or state";
    for (size_t i = 0; i < json_array_size(targets); i++)
        if (delivery_parse_target(json_array_get(targets, i), &ret->targets[ret->n_targets++]) < 0)
            return -EINVAL;
    *ret_reason = "a trace without its facts";
    for (size_t i = 0; i < json_array_size(traces); i++)
        if (delivered_trace_parse(json_array_get(traces, i), &ret->traces[ret->n_traces++]) < 0)
            return -EINVAL;
    return 0;
}

void delivered_trace_done(struct delivered_trace *t)
{
    free(t->worker);
    free(t->facts);
    *t = (struct delivered_trace){0};
}

static void delivered_target_done(struct delivered_target *t)
{
    free(t->worker);
    free(t->output_dir);
    free(t->trace_dir);
    free(t->profile_id);
    free(t->failure);
    free(t->remedy);
}

void delivery_done(struct delivery *d)
{
    for (size_t i = 0; i < d->n_targets; i++)
        delivered_target_done(&d->targets[i]);
    for (size_t i = 0; i < d->n_traces; i++)
        delivered_trace_done(&d->traces[i]);
    free(d->targets);
    free(d->traces);
    free(d->state);
    free(d->session);
    free(d->reason);
    free(d->remedy);
    json_decref(d->remarks);
    *d = (struct delivery){0};
}

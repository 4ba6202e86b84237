/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/tracename.h"

#include <assert.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_US INT64_C(1000)
/* Fields and optional parts are matched by recursion; names have at most this length, patterns no deeper
 * nesting. */
#define NAME_SIZE_MAX 255

/*
 * A pattern is text with <fields> and [optional parts]. A number matches all consecutive digits; a text
 * matches as much as lets the rest match, at least one byte.
 */
static const struct pattern {
    const char *text;
    enum trace_name_kind kind;
    enum trace_name_writer writer;
} patterns[] = {
    {"profiler_out_<local_rank>.txt", TRACE_NAME_ATTACHMENT, TRACE_WRITER_VLLM},
    {"proton[_dp<dp>_pp<pp>_tp<tp>_dcp<dcp>_ep<ep>_rank<rank>][_pid<pid>]_<any>", TRACE_NAME_ATTACHMENT,
     TRACE_WRITER_VLLM},
    {"<host>_<pid>.async_llm.<time_ns>[.pt].trace.json", TRACE_NAME_FRONTEND, TRACE_WRITER_VLLM},
    {"<any>async_llm<any>.trace.json", TRACE_NAME_FRONTEND, TRACE_WRITER_VLLM},
    {"[<prefix>_]dp<dp>_pp<pp>_tp<tp>_dcp<dcp>_ep<ep>_rank<rank>.<time_ns>[.pt].trace.json", TRACE_NAME_RANK,
     TRACE_WRITER_VLLM},
    {"[<prefix>_]rank<rank>.<time_ns>[.pt].trace.json", TRACE_NAME_RANK, TRACE_WRITER_VLLM},
    {"<prefix>-rank-<rank>.<time_ns>[.pt].trace.json", TRACE_NAME_RANK, TRACE_WRITER_VLLM},
    {"cuda_graph_capture-<any>-TP-<tp>.json", TRACE_NAME_CAPTURE, TRACE_WRITER_SGLANG},
    {"merged-<profile_id>.trace.json", TRACE_NAME_ATTACHMENT, TRACE_WRITER_SGLANG},
    {"rpd-<profile_id>-TP-<tp>.trace.json", TRACE_NAME_ATTACHMENT, TRACE_WRITER_SGLANG},
    {"<profile_id>-TP-<tp>-memory[-<stage>].pickle", TRACE_NAME_ATTACHMENT, TRACE_WRITER_SGLANG},
    {"<profile_id>-TP-<tp>[-DP-<dp>][-PP-<pp>][-EP-<ep>][-<stage>].trace.json", TRACE_NAME_RANK,
     TRACE_WRITER_SGLANG},
    {"<profile_id>-DP<dp>-[CP<digits>-]TP<tp>[-<stage>].trace.json", TRACE_NAME_RANK,
     TRACE_WRITER_TOKENSPEED},
    {"<profile_id>-CP<digits>-TP<tp>[-<stage>].trace.json", TRACE_NAME_RANK, TRACE_WRITER_TOKENSPEED},
    {"<profile_id>-TP<tp>[-<stage>].trace.json", TRACE_NAME_RANK, TRACE_WRITER_TOKENSPEED},
    {"<profile_id>-TP<tp>[-<stage>].viztracer.json", TRACE_NAME_ATTACHMENT, TRACE_WRITER_TOKENSPEED},
    {"<profile_id>-TP<tp>-memory[-<stage>].pickle", TRACE_NAME_ATTACHMENT, TRACE_WRITER_TOKENSPEED},
    {"<profile_id>-TP<tp>[-<stage>].proton.<any>", TRACE_NAME_ATTACHMENT, TRACE_WRITER_TOKENSPEED},
    {"trtllm-trace-<profile_id>-rank-<rank>.json", TRACE_NAME_RANK, TRACE_WRITER_TENSORRT_LLM},
    {"capture_graph_<any>_ts_<digits>_<digits>_<digits>.pt.trace.json", TRACE_NAME_CAPTURE,
     TRACE_WRITER_ATOM},
    {"bs_<digits>_q_<digits>_rank<rank>.json", TRACE_NAME_CAPTURE, TRACE_WRITER_ATOM},
    {"[<stage>-][pp<pp>_]dp<dp>_tp<tp>-<any>_ts_<digits>_<digits>_<digits>.pt.trace.json", TRACE_NAME_RANK,
     TRACE_WRITER_ATOM},
    {"[<stage>-]pp<pp>_rank_<tp>-<any>_ts_<digits>_<digits>_<digits>.pt.trace.json", TRACE_NAME_RANK,
     TRACE_WRITER_ATOM},
    {"[<stage>-]rank_<rank>-<any>_ts_<digits>_<digits>_<digits>.pt.trace.json", TRACE_NAME_RANK,
     TRACE_WRITER_ATOM},
    {"<any>_ts_<digits>_<digits>_<digits>.pt.trace.json", TRACE_NAME_RANK, TRACE_WRITER_ATOM},
    {"profiler_ts<time_us>_wr<rank>_<count>.json", TRACE_NAME_RANK, TRACE_WRITER_RTP_LLM},
    {"<profile_id>_wr<rank>_<count>.json", TRACE_NAME_RANK, TRACE_WRITER_RTP_LLM},
    {"<host>_<pid>.<time_ns>.pt.trace.json", TRACE_NAME_RANK, TRACE_WRITER_TORCH},
    {"libkineto_activities_<pid>[_<any>].json", TRACE_NAME_RANK, TRACE_WRITER_TORCH},
    {"<host>.<time_ns>.pt.trace.json", TRACE_NAME_RANK, TRACE_WRITER_TORCH},
    /* TLLM_TORCH_PROFILE_TRACE=FILE: the rank is put before the last suffix. */
    {"<any>.json-rank-<rank>", TRACE_NAME_RANK, TRACE_WRITER_TENSORRT_LLM},
    {"<any>-rank-<rank>.json", TRACE_NAME_RANK, TRACE_WRITER_TENSORRT_LLM},
    {"<any>.trace.json", TRACE_NAME_RANK, TRACE_WRITER_UNKNOWN},
    {"<any>.pickle", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
    {"<any>.hatchet", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
    {"<any>.chrome_trace", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
    {"<any>.msgpack", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
    {"<stage>_<rank>.nsys-rep", TRACE_NAME_ATTACHMENT, TRACE_WRITER_SRTCTL},
    {"<host>_<stage>_w<any>_profile_rank<rank>.nsys-rep", TRACE_NAME_ATTACHMENT, TRACE_WRITER_SRTCTL},
    {"<host>_<stage>_w<any>_profile_gpu<any>.nsys-rep", TRACE_NAME_ATTACHMENT, TRACE_WRITER_SRTCTL},
    {"<any>.nsys-rep", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
    {"<stage>_<rank>.sqlite", TRACE_NAME_RANK, TRACE_WRITER_SRTCTL},
    {"<host>_<stage>_w<any>_profile_rank<rank>.sqlite", TRACE_NAME_RANK, TRACE_WRITER_SRTCTL},
    {"<host>_<stage>_w<any>_profile_gpu<any>.sqlite", TRACE_NAME_RANK, TRACE_WRITER_SRTCTL},
    {"<any>.sqlite", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
    {"<any>.ncu-rep", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
    {"<any>.rpd", TRACE_NAME_ATTACHMENT, TRACE_WRITER_UNKNOWN},
};

enum name_field_type { FIELD_NUMBER, FIELD_US, FIELD_DIGITS, FIELD_TEXT, FIELD_STAGE, FIELD_ANY };

#define NUMBER(name)                                                                                         \
    {                                                                                                        \
#name, FIELD_NUMBER, offsetof(struct trace_name, name)                                               \
    }
#define TEXT(name)                                                                                           \
    {                                                                                                        \
#name, FIELD_TEXT, offsetof(struct trace_name, name)                                                 \
    }

static const struct name_field {
    const char *name;
    enum name_field_type type;
    size_t offset;
} fields[] = {
    NUMBER(dp),
    NUMBER(pp),
    NUMBER(tp),
    NUMBER(dcp),
    NUMBER(ep),
    NUMBER(rank),
    NUMBER(pid),
    NUMBER(time_ns),
    NUMBER(local_rank),
    NUMBER(count),
    TEXT(host),
    TEXT(prefix),
    TEXT(profile_id),
    {"time_us", FIELD_US, offsetof(struct trace_name, time_ns)},
    {"stage", FIELD_STAGE, 0},
    {"digits", FIELD_DIGITS, 0},
    {"any", FIELD_ANY, 0},
};

static const struct stage_word {
    const char *word;
    enum trace_stage stage;
} stage_words[] = {
    {"EXTEND", TRACE_STAGE_PREFILL}, {"DECODE", TRACE_STAGE_DECODE},   {"prefill", TRACE_STAGE_PREFILL},
    {"decode", TRACE_STAGE_DECODE},  {"aggregated", TRACE_STAGE_NONE}, {"agg", TRACE_STAGE_NONE},
};

static bool trace_name_match(const char *pattern, const char *s, struct trace_name *n);

static bool trace_name_match_number(const char *rest, const char *s, int64_t *ret, struct trace_name *n)
{
    const char *p = s;
    int64_t value = 0;

    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
            return false;
    if (p == s || !trace_name_match(rest, p, n))
        return false;
    *ret = value;
    return true;
}

/* ret is NULL if the text is not needed. */
static bool trace_name_match_text(const char *rest, const char *s, char *ret, struct trace_name *n)
{
    for (size_t size = strlen(s); size > 0; size--) {
        if (!trace_name_match(rest, s + size, n))
            continue;
        if (ret) {
            memcpy(ret, s, size);
            ret[size] = '\0';
        }
        return true;
    }
    return false;
}

static bool trace_name_match_stage(const char *rest, const char *s, struct trace_name *n)
{
    for (size_t i = 0; i < ARRAY_SIZE(stage_words); i++) {
        const struct stage_word *w = &stage_words[i];
        if (!starts_with(s, w->word) || !trace_name_match(rest, s + strlen(w->word), n))
            continue;
        n->stage = w->stage;
        return true;
    }
    return false;
}

static bool trace_name_match_field(const char *pattern, const char *s, struct trace_name *n)
{
    const char *close = strchr(pattern, '>');
    size_t size = (size_t)(close - pattern) - 1;
    const struct name_field *f = fields;

    while (strlen(f->name) != size || memcmp(f->name, pattern + 1, size) != 0)
        f++;
    assert(f < fields + ARRAY_SIZE(fields));
    char *offset = (char *)n + f->offset;
    int64_t ignored;
    switch (f->type) {
    case FIELD_NUMBER:
        return trace_name_match_number(close + 1, s, (int64_t *)(void *)offset, n);
    case FIELD_US:
        return trace_name_match_number(close + 1, s, (int64_t *)(void *)offset, n) &&
               !__builtin_mul_overflow(*(int64_t *)(void *)offset, NS_PER_US, (int64_t *)(void *)offset);
    case FIELD_DIGITS:
        return trace_name_match_number(close + 1, s, &ignored, n);
    case FIELD_TEXT:
        return trace_name_match_text(close + 1, s, offset, n);
    case FIELD_STAGE:
        return trace_name_match_stage(close + 1, s, n);
    case FIELD_ANY:
        return trace_name_match_text(close + 1, s, NULL, n);
    }
    return false;
}

/* Fields are stored on the way back from a match of the complete name, so that a failed attempt stores
 * nothing. */
static bool trace_name_match(const char *pattern, const char *s, struct trace_name *n)
{
    for (;; pattern++, s++) {
        while (*pattern == ']')
            pattern++;
        if (*pattern == '<')
            return trace_name_match_field(pattern, s, n);
        if (*pattern == '[')
            return trace_name_match(pattern + 1, s, n) || trace_name_match(strchr(pattern, ']') + 1, s, n);
        if (*pattern != *s)
            return false;
        if (!*s)
            return true;
    }
}

/* SGLang's ids are the seconds of time.time() unless the caller named one; TensorRT-LLM's are the second, a dash and eight
 * digits. */
static int64_t trace_name_time_of_profile_id(const char *id)
{
    static const int64_t earliest_s = 1500000000, latest_s = 4000000000;
    int64_t s = 0, unit = NS_PER_S, fraction = 0;

    for (; *id >= '0' && *id <= '9' && s <= latest_s; id++)
        s = s * 10 + *id - '0';
    if (*id == '.')
        for (id++; *id >= '0' && *id <= '9'; id++) {
            unit /= 10;
            fraction += (*id - '0') * unit;
        }
    if (*id == '-' && strlen(id) == 9 && strspn(id + 1, "0123456789abcdef") == 8)
        id += 9;
    return *id || s < earliest_s || s > latest_s ? -1 : s * NS_PER_S + fraction;
}

/* torch's older handler writes milliseconds. */
static int64_t trace_name_time_in_ns(int64_t time)
{
    static const int64_t ms_max = INT64_C(100000000000000), ns_per_ms = 1000000;
    return time > 0 && time < ms_max ? time * ns_per_ms : time;
}

static bool trace_name_is_below(const char *path, const char *directory)
{
    const char *p = strstr(path, directory);
    return p && (p == path || p[-1] == '/') && p[strlen(directory)] == '/';
}

static void trace_name_cut_suffix(char *name, const char *suffix, bool *ret)
{
    if (!ends_with(name, suffix))
        return;
    name[strlen(name) - strlen(suffix)] = '\0';
    *ret = true;
}

/* Directories of ranks, ATOM's (model_runner.py, profiler_dir); with pipeline stages rank_ counts within the stage. */
static const char *const rank_dirs[] = {"rank_<rank>", "pp<pp>_rank_<tp>", "[pp<pp>_]dp<dp>_tp<tp>"};

static bool trace_name_match_rank_dir(const char *name, struct trace_name *n)
{
    for (size_t i = 0; i < ARRAY_SIZE(rank_dirs); i++)
        if (trace_name_match(rank_dirs[i], name, n))
            return true;
    return false;
}

bool trace_name_is_rank_dir(const char *name)
{
    struct trace_name n;
    return strlen(name) <= NAME_SIZE_MAX && trace_name_match_rank_dir(name, &n);
}

bool trace_name_is_stage_dir(const char *name)
{
    return streq(name, "prefill") || streq(name, "decode");
}

/* The rank of a file by the directories that it is in, innermost first. */
static void trace_name_take_dirs(const char *path, const char *slash, struct trace_name *n)
{
    for (int i = 0; i < 2 && slash && slash > path; i++) {
        const char *end = slash;
        char name[NAME_SIZE_MAX + 1];
        slash = memrchr(path, '/', (size_t)(end - path));
        const char *begin = slash ? slash + 1 : path;
        if (end - begin > NAME_SIZE_MAX)
            return;
        memcpy(name, begin, (size_t)(end - begin));
        name[end - begin] = '\0';
        if (i == 0 ? !trace_name_match_rank_dir(name, n) : !trace_name_match("<stage>", name, n))
            return;
    }
}

void trace_name_parse(const char *path, struct trace_name *ret)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char name[NAME_SIZE_MAX + 1];
    bool packed = false;

    *ret = (struct trace_name){0};
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        if (fields[i].type == FIELD_NUMBER)
            *(int64_t *)(void *)((char *)ret + fields[i].offset) = -1;
    if (strlen(base) > NAME_SIZE_MAX)
        return;
    strcpy(name, base);
    trace_name_cut_suffix(name, ".tmp", &ret->unfinished);
    trace_name_cut_suffix(name, ".gz", &packed);
    trace_name_cut_suffix(name, ".zst", &packed);
    for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
        if (!trace_name_match(patterns[i].text, name, ret))
            continue;
        ret->kind = patterns[i].kind;
        ret->writer = patterns[i].writer;
        break;
    }
    if (ret->writer == TRACE_WRITER_ATOM) {
        trace_name_take_dirs(path, slash, ret);
        ret->intermediate = !packed && !ret->unfinished;
    }
    if (ret->profile_id[0])
        ret->time_ns = trace_name_time_of_profile_id(ret->profile_id);
    else
        ret->time_ns = trace_name_time_in_ns(ret->time_ns);
    if (trace_name_is_below(path, "capture_traces") || trace_name_is_below(path, "graph_capture_profile"))
        ret->kind = TRACE_NAME_CAPTURE;
}

const char *trace_stage_name(enum trace_stage stage)
{
    static const char *const names[] = {
        [TRACE_STAGE_NONE] = "",
        [TRACE_STAGE_PREFILL] = "prefill",
        [TRACE_STAGE_DECODE] = "decode",
    };
    return names[stage];
}

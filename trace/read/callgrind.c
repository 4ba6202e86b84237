/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/callgrind.h"

#include "trace/read/budget.h"
#include "trace/read/json_text.h"
#include "trace/read/scan_text.h"
#include <errno.h>

#define NAMES_MEMORY_MAX (UINT64_C(256) << 20)
#define EVENT_TEXT_MAX   64

/* Each name space numbers its names separately. */
enum name_space { SPACE_NONE, SPACE_OBJECT, SPACE_FILE, SPACE_FUNCTION };

/* A function by its strings; 0 is an unknown string. */
struct code_location {
    uint32_t object, file, function;
};

struct profile_reader {
    struct intake *in;
    struct callgraph *graph;
    struct budget budget;
    struct number_map names;    /* (number in the text, space) to string */
    uint64_t offset;            /* of the line */
    struct code_location here;  /* code that is inlined may lie in another file than its function */
    struct code_location owner; /* the function that costs belong to */
    struct code_location callee;
    bool in_call; /* the next cost is the cost of a call to the callee */
    int64_t positions;
    int64_t unit;               /* nanoseconds of one unit of cost; 0 if the cost is not a time */
    char event[EVENT_TEXT_MAX]; /* empty before the events are listed */
    bool is_yappi;
    uint64_t costs;
    int64_t pid;
    uint32_t command;
};

static const struct {
    const char *event;
    int64_t unit;
} units[] = {
    {"ns", 1},
    {"Nanoseconds", 1},
    {"Time_(10ns)", 10},
    {"us", 1000},
    {"Microseconds", 1000},
    {"Time_(us)", 1000},
    {"Time_(\xC2\xB5s)", 1000},
    {"ms", 1000000},
    {"Milliseconds", 1000000},
};
/* yappi writes microseconds under this name, other tools any unit. */
#define YAPPI_EVENT "Ticks"
#define YAPPI_UNIT  1000

static void callgrind_give_up(struct profile_reader *p, int error)
{
    if (p->in->error == 0)
        p->in->error = error;
}

static struct slice callgrind_trim(struct slice s)
{
    s.p = json_skip_space(s.p, s.end);
    while (s.end > s.p && json_is_space(s.end[-1]))
        s.end--;
    return s;
}

static struct slice callgrind_next_word(struct slice *rest)
{
    const char *p = json_skip_space(rest->p, rest->end), *end = p;

    while (end < rest->end && !json_is_space(*end))
        end++;
    rest->p = end;
    return (struct slice){p, end};
}

static uint32_t callgrind_intern(struct profile_reader *p, struct slice s)
{
    uint32_t number = clean_text(p->in, s.p, (size_t)(s.end - s.p), p->offset);

    return number == STRINGS_NONE ? 0 : number;
}

/* "name", "(12) name", which gives it a number, or "(12)". */
static uint32_t callgrind_name(struct profile_reader *p, enum name_space space, struct slice value)
{
    const char *close =
        value.p < value.end && *value.p == '(' ? memchr(value.p, ')', (size_t)(value.end - value.p)) : NULL;
    int64_t id;

    if (!close || !slice_int((struct slice){value.p + 1, close}, &id))
        return callgrind_intern(p, value);
    struct slice rest = callgrind_trim((struct slice){close + 1, value.end});
    if (rest.p == rest.end) {
        uint32_t *known = number_map_get(&p->names, (uint64_t)id, space);
        if (known)
            return *known;
        intake_defect(p->in, DEFECT_unreadable_event, p->offset);
        return callgrind_intern(p, value);
    }
    uint32_t *number = number_map_put(&p->names, (uint64_t)id, space, 0);
    if (!number) {
        callgrind_give_up(p, -ENOMEM);
        return 0;
    }
    return *number = callgrind_intern(p, rest);
}

static uint32_t callgrind_function_of(struct profile_reader *p, struct code_location s)
{
    uint32_t number = callgraph_function(p->graph, s.function, s.file, s.object);

    if (number == UINT32_MAX)
        callgrind_give_up(p, -ENOMEM);
    return number;
}

static void callgrind_take_function(struct profile_reader *p, struct slice value)
{
    p->here.function = callgrind_name(p, SPACE_FUNCTION, value);
    p->owner = p->here;
}

static void callgrind_take_calls(struct profile_reader *p, struct slice value _unused_)
{
    p->in_call = true;
}

static void callgrind_take_creator(struct profile_reader *p, struct slice value)
{
    p->is_yappi = slice_is(value, "yappi");
}

static void callgrind_take_pid(struct profile_reader *p, struct slice value)
{
    if (!slice_int(value, &p->pid))
        p->pid = 0;
}

static void callgrind_take_command(struct profile_reader *p, struct slice value)
{
    p->command = callgrind_intern(p, value);
}

static void callgrind_take_positions(struct profile_reader *p, struct slice value)
{
    for (p->positions = 0; callgrind_next_word(&value).p < value.p;)
        p->positions++;
}

static void callgrind_take_events(struct profile_reader *p, struct slice value)
{
    struct slice event = callgrind_next_word(&value);

    slice_copy(event, p->event, sizeof(p->event));
    p->unit = p->is_yappi && slice_is(event, YAPPI_EVENT) ? YAPPI_UNIT : 0;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (slice_is(event, units[i].event))
            p->unit = units[i].unit;
}

/* Lines of "key=value" and "key: value". take: handles the value. Otherwise it is a name of this space, and
 * `string` is where its number is kept; 0: nowhere. */
#define NAME_AT(member) offsetof(struct profile_reader, member)
static const struct {
    const char *key;
    char mark;
    void (*take)(struct profile_reader *p, struct slice value);
    enum name_space space;
    size_t string;
} profile_keys[] = {
    {"fn", '=', callgrind_take_function},
    {"cfn", '=', NULL, SPACE_FUNCTION, NAME_AT(callee.function)},
    {"calls", '=', callgrind_take_calls},
    {"fl", '=', NULL, SPACE_FILE, NAME_AT(here.file)},
    {"fi", '=', NULL, SPACE_FILE, NAME_AT(here.file)},
    {"fe", '=', NULL, SPACE_FILE, NAME_AT(here.file)},
    {"ob", '=', NULL, SPACE_OBJECT, NAME_AT(here.object)},
    {"cob", '=', NULL, SPACE_OBJECT, NAME_AT(callee.object)},
    {"cfi", '=', NULL, SPACE_FILE, NAME_AT(callee.file)},
    {"cfl", '=', NULL, SPACE_FILE, NAME_AT(callee.file)},
    {"jump", '=', NULL, SPACE_NONE},
    {"jcnd", '=', NULL, SPACE_NONE},
    /* A jump is not drawn, but may define the name of its target. */
    {"jfi", '=', NULL, SPACE_FILE},
    {"jfn", '=', NULL, SPACE_FUNCTION},
    {"creator", ':', callgrind_take_creator},
    {"pid", ':', callgrind_take_pid},
    {"cmd", ':', callgrind_take_command},
    {"positions", ':', callgrind_take_positions},
    {"events", ':', callgrind_take_events},
};

static void callgrind_take_value(struct profile_reader *p, size_t key, struct slice value)
{
    if (profile_keys[key].take) {
        profile_keys[key].take(p, value);
    } else if (profile_keys[key].space != SPACE_NONE) {
        uint32_t number = callgrind_name(p, profile_keys[key].space, value);
        if (profile_keys[key].string > 0)
            memcpy((char *)p + profile_keys[key].string, &number, sizeof(number));
    }
}

/* Returns false if the line is not a header. Unknown headers are accepted. */
static bool callgrind_take_key(struct profile_reader *p, struct slice line)
{
    const char *mark = line.p;

    while (mark < line.end && *mark != '=' && *mark != ':')
        mark++;
    if (mark == line.end)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(profile_keys); i++)
        if (*mark == profile_keys[i].mark && slice_is((struct slice){line.p, mark}, profile_keys[i].key)) {
            callgrind_take_value(p, i, callgrind_trim((struct slice){mark + 1, line.end}));
            return true;
        }
    return *mark == ':';
}

static bool callgrind_is_cost(struct slice line)
{
    return (*line.p >= '0' && *line.p <= '9') || *line.p == '+' || *line.p == '-' || *line.p == '*';
}

static int callgrind_add_cost(struct profile_reader *p, int64_t cost)
{
    uint32_t function = callgrind_function_of(p, p->owner);

    if (!p->in_call)
        return p->in->error < 0 ? p->in->error : callgraph_self(p->graph, function, cost);
    /* Properties of the callee that are not given are those of the caller. */
    if (p->callee.object == 0)
        p->callee.object = p->here.object;
    if (p->callee.file == 0)
        p->callee.file = p->here.file;
    uint32_t callee = callgrind_function_of(p, p->callee);
    p->callee = (struct code_location){0};
    p->in_call = false;
    return p->in->error < 0 ? p->in->error : callgraph_call(p->graph, function, callee, cost);
}

/* Reads positions, which may be fewer than usual only if no cost follows, and costs, of which the first
 * counts. */
static void callgrind_take_cost(struct profile_reader *p, struct slice line)
{
    int64_t cost = 0;

    for (int64_t i = 0; i < p->positions; i++)
        callgrind_next_word(&line);
    struct slice word = callgrind_next_word(&line);
    if (word.p < word.end &&
        (!slice_int(word, &cost) || cost < 0 || __builtin_mul_overflow(cost, MAX(p->unit, 1), &cost))) {
        intake_defect(p->in, DEFECT_bad_number, p->offset);
        cost = 0;
    }
    int r = callgrind_add_cost(p, cost);
    if (r == -ERANGE)
        intake_defect(p->in, DEFECT_bad_number, p->offset);
    else if (r < 0)
        callgrind_give_up(p, r);
    p->costs++;
}

static void callgrind_take_line(struct profile_reader *p, struct slice line)
{
    line = callgrind_trim(line);
    if (line.p == line.end || *line.p == '#')
        return;
    if (callgrind_is_cost(line))
        callgrind_take_cost(p, line);
    else if (!callgrind_take_key(p, line))
        intake_defect(p->in, DEFECT_unreadable_event, p->offset);
}

static void callgrind_read_lines(struct profile_reader *p, const char *text, size_t size)
{
    const char *end = text + size;

    for (const char *at = text; at < end && p->in->error == 0;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;

        p->offset = (uint64_t)(at - text);
        callgrind_take_line(p, (struct slice){at, stop});
        at = newline ? newline + 1 : end;
    }
    if (p->in_call)
        intake_defect(p->in, DEFECT_truncated, size);
}

static int callgrind_draw(struct profile_reader *p, char *ret_reason, size_t reason_size)
{
    struct callgraph_drawn drawn;
    char unit[EVENT_TEXT_MAX + 64] = "";

    if (p->event[0] == '\0' || p->costs == 0) {
        snprintf(ret_reason, reason_size, "the profile has no %s",
                 p->costs == 0 ? "costs" : "list of events");
        return -EBADMSG;
    }
    int r = callgraph_draw(p->graph, p->in, p->pid, &drawn);
    if (r < 0)
        return r;
    if (p->command != 0)
        p->in->processes[intake_process(p->in, p->pid, 0)].name = p->command;
    if (p->pid > 0)
        p->in->meta[META_pid] = p->pid;
    if (p->unit == 0)
        snprintf(unit, sizeof(unit), "one unit of %s is shown as one nanosecond; ", p->event);
    snprintf(ret_reason, reason_size,
             "a profile of sums, drawn as a flame: %s%llu calls that recur and %llu that are too small are "
             "part of their callers",
             unit, (unsigned long long)drawn.recursive, (unsigned long long)drawn.small);
    return 0;
}

int callgrind_read(const void *data, size_t size, struct intake *intake, char *ret_reason, size_t reason_size)
{
    _cleanup_(callgraph_freep) struct callgraph *graph = NULL;
    struct profile_reader p = {.in = intake, .budget.max = NAMES_MEMORY_MAX, .positions = 1};
    int r = callgraph_new(&graph);

    if (r < 0)
        return r;
    p.graph = graph;
    p.names.budget = &p.budget;
    ret_reason[0] = '\0';
    callgrind_read_lines(&p, data, size);
    r = intake->error < 0 ? intake->error : callgrind_draw(&p, ret_reason, reason_size);
    number_map_done(&p.names);
    return r;
}

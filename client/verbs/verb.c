/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/verb.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/verbs/extras.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include <limits.h>

#define HELP_COLUMNS   80
#define SUMMARY_COLUMN 18 /* of the list of verbs */
#define NAMES_MAX      128

static const struct verb verb_help_page;

/* clang-format off */
static const struct verb_entry fleet_verbs[] = {
    {&verb_list_workers, {"workers"}, NULL,
     "profctl list-workers --router http://10.0.0.1:3521\n"
     "profctl workers --unit 'vllm@*.service' --format wide\n"
     "profctl workers --kineto --uid anna"},
    {&verb_list_hosts, {"hosts"}, "nodes machines peers",
     "profctl list-hosts\n"
     "profctl hosts --format wide"},
    {&verb_doctor, {0}, "check diagnose verify",
     "profctl doctor --router http://10.0.0.1:3521\n"
     "profctl doctor --worker http://10.0.0.11:8000 --json"},
};

static const struct verb_entry record_verbs[] = {
    {&verb_start, {0}, "record profile capture",
     "profctl start --router http://10.0.0.1:3521 --duration 5s --wait\n"
     "profctl start --role decode --count 2 --workload chat.yaml --wait\n"
     "profctl start --kineto --slurm-job 4711 --duration 2s --wait"},
    {&verb_status, {0}, "watch top ps",
     "profctl status\n"
     "profctl status s7 --once", .takes = "s"},
    {&verb_stop, {0}, "cancel abort kill",
     "profctl stop\n"
     "profctl stop s7 --wait", .takes = "sr"},
    {&verb_list_sessions, {"sessions"}, "history",
     "profctl list-sessions --state failed\n"
     "profctl sessions -n 10 --columns session,state,labels"},
    {&verb_timeline, {0}, NULL,
     "profctl timeline --worker http://10.0.0.5:8088 --prompt \"Hello\"\n"
     "profctl timeline --worker http://10.0.0.5:8088 --prompt Hi -o hi.json"},
};

static const struct verb_entry load_verbs[] = {
    {&verb_bench, {0}, "benchmark load measure send",
     "profctl bench --router http://10.0.0.1:3521 -n 200 -c 16 --isl 1024\n"
     "profctl bench --workload chat.yaml --sweep concurrency=1,2,4,8\n"
     "profctl bench --isl 1024 -n 200 --repeat-runs 5 --label build=42"},
    {&verb_compare, {0}, NULL,
     "profctl compare r3 r4\n"
     "profctl compare r3,r4,r5 r6,r7,r8 --fail-if 'ttft.p99 > +5%'\n"
     "profctl compare build=41 build=42,concurrency=8 --json", .takes = "r"},
    {&verb_list_runs, {"runs"}, NULL,
     "profctl list-runs\n"
     "profctl runs --session s7"},
};

static const struct verb_entry trace_verbs[] = {
    {&verb_list_traces, {"traces", "ls"}, "list dir",
     "profctl list-traces --session s7\n"
     "profctl ls --since 1h\n"
     "profctl ls --search 'decode h200' --sort -size"},
    {&verb_show, {0}, "describe info inspect",
     "profctl show t12\n"
     "profctl show s7 --json\n"
     "profctl show r3 --requests --csv", .takes = "str"},
    {&verb_label, {0}, "tag annotate",
     "profctl label s7 team=rl baseline=yes\n"
     "profctl label t12 t13 draft-", .takes = "str"},
    {&verb_get, {0}, "download fetch pull cp",
     "profctl get t12\n"
     "profctl get s7 -d traces", .takes = "st"},
    {&verb_open, {0}, "perfetto ui view browse",
     "profctl open\n"
     "profctl open s7\n"
     "profctl open trace.json.gz", .takes = "stf"},
    {&verb_web, {0}, "browser gui dashboard page",
     "profctl web\n"
     "profctl web t12 --role read\n"
     "profctl web --host https://gpu7.example:9460 --no-browser", .takes = "str"},
    {&verb_ingest, {0}, "import add upload load-trace",
     "profctl ingest /tmp/traces\n"
     "profctl ingest rank0.json.gz rank1.json.gz --session baseline\n"
     "profctl ingest --archive", .takes = "f"},
    {&verb_export, {0}, "convert",
     "profctl export t12 --from 1.5s --to 1.6s -o part.json.gz\n"
     "profctl export t12 --format collapsed -o stacks.txt", .takes = "tf"},
    {&verb_merge, {0}, "join combine",
     "profctl merge --session s7 -o all-ranks.json.gz\n"
     "profctl merge t12 t13 --from 1s --to 2s -o part.json.gz", .takes = "tf"},
};

static const struct verb_entry analyze_verbs[] = {
    {&verb_analyze, {0}, "analyse report explain summary",
     "profctl analyze\n"
     "profctl analyze trace.json.gz --report kernels,gaps\n"
     "profctl analyze s7 --html report.html", .takes = "stf"},
    {&verb_diff, {0}, NULL,
     "profctl diff s7 s9\n"
     "profctl diff t12 t15 --fail-if 'step.p50 > +5%'", .takes = "stf"},
    {&verb_flame, {0}, "flamegraph",
     "profctl flame t12 -o flame.svg\n"
     "profctl flame t15 --diff t12 --by stack", .takes = "stf"},
    {&verb_query, {0}, "sql select",
     "profctl query t12 \"SELECT name, sum(dur) FROM kernel GROUP BY 1\"\n"
     "profctl query s7 --named kernels\n"
     "profctl query --mirror \"SELECT host, count(*) FROM traces GROUP BY 1\"", .takes = "stf"},
    {&verb_reports, {0}, NULL,
     "profctl reports\n"
     "profctl reports --json"},
};

static const struct verb_entry storage_verbs[] = {
    {&verb_du, {0}, "df usage storage",
     "profctl du\n"
     "profctl du --csv"},
    {&verb_rm, {0}, "remove delete del",
     "profctl rm t12 t13\n"
     "profctl rm s7 --yes", .takes = "str"},
    {&verb_pin, {0}, "keep protect",
     "profctl pin s7\n"
     "profctl pin t12 t13", .takes = "st"},
    {&verb_unpin, {0}, NULL,
     "profctl unpin s7\n"
     "profctl unpin t12 t13", .takes = "st"},
    {&verb_vacuum, {0}, "prune clean gc",
     "profctl vacuum --keep 20G --dry-run\n"
     "profctl vacuum --older-than 30d --yes"},
};

static const struct verb_entry administration_verbs[] = {
    {&verb_events, {0}, "log logs journal follow",
     "profctl events\n"
     "profctl events --session s7 --json"},
    {&verb_token, {0}, "login auth",
     "profctl token new grafana\n"
     "profctl token new ci --role operate", .words = "new"},
    {&verb_peer, {0}, "join pair federate",
     "profctl peer join gpu2\n"
     "profctl peer join gpu1 gpu2 gpu3 --directory ~/profd-peers", .words = "join"},
    {&verb_context, {0}, "contexts config cluster connect",
     "profctl context add prod --host https://10.0.0.1:9460 --use\n"
     "profctl context list\n"
     "profctl --context prod list-sessions",
     .words = "add use list show rm"},
    {&verb_mirror, {0}, "postgres postgresql replicate",
     "profctl mirror init postgresql://postgres@db1/fleet\n"
     "profctl mirror status\n"
     "profctl mirror expire postgresql://fleet_owner@db1/fleet --older-than 365d", .words = "init migrate status expire"},
    {&verb_completion, {0}, NULL,
     "source <(profctl completion bash)\n"
     "profctl completion zsh > ~/.zfunc/_profctl", .words = "bash zsh fish"},
    {&verb_help_page, {0}, "man usage",
     "profctl help start\n"
     "profctl help options", .takes = "v", .words = "options"},
};
/* clang-format on */

#define GROUP(title, table)                                                                                  \
    {                                                                                                        \
        title, table, ARRAY_SIZE(table)                                                                      \
    }

const struct verb_group verb_groups[] = {
    GROUP("Fleet", fleet_verbs),
    GROUP("Record", record_verbs),
    GROUP("Measure load", load_verbs),
    GROUP("Traces", trace_verbs),
    GROUP("Analyze", analyze_verbs),
    GROUP("Storage", storage_verbs),
    GROUP("Administration", administration_verbs),
};
const size_t n_verb_groups = ARRAY_SIZE(verb_groups);

/* Whether a list of names, separated by spaces, has that one. */
static bool words_have(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p && *p; p += strspn(p, " ")) {
        size_t size = strcspn(p, " ");
        if (size == n && strncmp(p, name, n) == 0)
            return true;
        p += size;
    }
    return false;
}

const struct verb_entry *verb_entry_at(const struct verb_group *group, size_t i)
{
    if (i < group->n)
        return &group->entries[i];
    for (size_t k = 0, n = group->n; k < n_extra_verbs; k++)
        if (streq(extra_verbs[k].group, group->name) && n++ == i)
            return &extra_verbs[k].entry;
    return NULL;
}

static const struct verb_entry *verb_find_entry(const char *name, bool synonyms)
{
    const struct verb_entry *e;

    for (size_t g = 0; g < n_verb_groups; g++)
        for (size_t i = 0; (e = verb_entry_at(&verb_groups[g], i)); i++) {
            bool has = synonyms ? words_have(e->synonyms, name) : streq(e->verb->name, name);
            for (size_t k = 0; k < ALIASES_MAX && !synonyms; k++)
                has |= streq(e->aliases[k], name);
            if (has)
                return e;
        }
    return NULL;
}

const struct verb_entry *verb_find(const char *name)
{
    /* Called by the completion scripts, and not listed. */
    static const struct verb_entry hidden = {&verb_complete, .examples = ""};

    if (streq(name, hidden.verb->name))
        return &hidden;
    return verb_find_entry(name, false);
}

const struct verb_extension *verb_extension_of(const struct verb *v)
{
    for (const struct verb_extension *const *e = extra_extensions; *e; e++)
        if ((*e)->verb == v)
            return *e;
    return NULL;
}

size_t verb_option_sets(const struct verb *v, struct option_set sets[static VERB_SETS_MAX])
{
    const struct verb_extension *e = verb_extension_of(v);
    struct option_set *end = sets;

    *end++ = (struct option_set){.defs = v->options, .n = v->n_options};
    if (v->has_listing)
        *end++ = (struct option_set){.defs = listing_option_defs, .n = n_listing_option_defs};
    if (e)
        *end++ = (struct option_set){.defs = e->options, .n = e->n_options};
    return (size_t)(end - sets);
}

void verb_help(FILE *out, const struct verb_entry *e)
{
    const struct verb *v = e->verb;
    struct option_set sets[VERB_SETS_MAX];
    size_t n_sets = verb_option_sets(v, sets);

    fprintf(out, "profctl %s [OPTION...]%s%s\n\n%s.\n", v->name, *v->words ? " " : "", v->words, v->summary);
    if (v->details) {
        _cleanup_(freep) char *details = text_wrap(v->details, 0, HELP_COLUMNS);
        fprintf(out, "\n%s\n", details);
    }
    for (size_t i = 0; i < ARRAY_SIZE(e->aliases) && e->aliases[i]; i++)
        fprintf(out, "%s%s%s", i == 0 ? "\nAliases: " : ", ", e->aliases[i],
                i + 1 == ALIASES_MAX || !e->aliases[i + 1] ? "\n" : "");
    options_help(out, sets, n_sets);
    _cleanup_(freep) char *examples = text_wrap(e->examples, 2, UINT_MAX);
    fprintf(out, "\nExamples:\n  %s\n\nGlobal options: profctl help options\n", examples);
}

void verbs_help(FILE *out)
{
    fputs("profctl [OPTION...] VERB [OPTION...] [WORD...]\n\n"
          "Profile LLM inference fleets: record all workers together, analyze the traces.\n",
          out);
    for (size_t g = 0; g < n_verb_groups; g++) {
        fprintf(out, "\n%s:\n", verb_groups[g].name);
        const struct verb_entry *e;
        for (size_t i = 0; (e = verb_entry_at(&verb_groups[g], i)); i++)
            fprintf(out, "  %-*s%s\n", SUMMARY_COLUMN - 2, e->verb->name, e->verb->summary);
    }
    fputs("\nHelp of a verb, with examples: profctl VERB --help\n"
          "Global options: profctl help options\n"
          "\nIds begin with their kind: session s7, trace t12, benchmark run r3.\n"
          "Exit status: 0 success, 1 failure, 2 usage, 3 partial, 4 not found,\n"
          "5 --fail-if condition met, 6 --fail-if undecided. See profctl(1).\n",
          out);
}

static int help_run(struct client *c, const void *options, int n_words, char **words)
{
    const struct verb_entry *e = n_words > 0 ? verb_find(words[0]) : NULL;

    if (n_words > 0 && streq(words[0], "options")) {
        fputs("Options of every verb, before or after it.\n", c->out.file);
        options_help(c->out.file, &(struct option_set){.defs = global_options, .n = n_global_options}, 1);
    } else if (n_words > 0 && !e) {
        return verb_unknown(c, words[0]);
    } else if (e) {
        verb_help(c->out.file, e);
    } else {
        verbs_help(c->out.file);
    }
    return EXIT_DONE;
}

static const struct verb verb_help_page = {
    .name = "help",
    .words = "[VERB|options]",
    .summary = "Show the help of profctl or of a verb",
    .max_words = 1,
    .is_offline = true,
    .run = help_run,
};

/* The verb that a misspelt name, or the name in another program, most likely means; NULL: none. */
static const struct verb_entry *verb_nearest(const char *name)
{
    const char *names[NAMES_MAX];
    const struct verb_entry *e = verb_find_entry(name, true), *one;
    size_t n = 0;

    for (size_t g = 0; g < n_verb_groups && !e; g++)
        for (size_t i = 0; (one = verb_entry_at(&verb_groups[g], i)) && n + ALIASES_MAX < NAMES_MAX; i++) {
            names[n++] = one->verb->name;
            for (size_t k = 0; k < ALIASES_MAX && one->aliases[k]; k++)
                names[n++] = one->aliases[k];
        }
    const char *near = e ? NULL : nearest_name(name, names, n);
    for (size_t i = 0; i < n && !near && *name; i++)
        if (strstr(names[i], name) || starts_with(name, names[i]))
            near = names[i];
    return near ? verb_find(near) : e;
}

int verb_unknown(struct client *c, const char *name)
{
    _cleanup_(freep) char *clean = text_clean(name, false), *remedy = NULL;
    const struct verb_entry *near = verb_nearest(name);

    for (const struct verb_not_built *v = verbs_not_built; v->name; v++)
        if (streq(v->name, name))
            return extra_not_built(c, name, v->option);
    if (near)
        remedy = xasprintf("Did you mean %s (%s)? profctl help lists all verbs.", near->verb->name,
                           near->verb->summary);
    return client_refuse(c, remedy ? remedy : "profctl help lists all verbs.", "unknown verb '%s'", clean);
}

int extra_not_built(struct client *c, const char *what, const char *build_option)
{
    _cleanup_(freep) char *remedy = xasprintf("Build profctl with -D%s=true.", build_option);

    return client_refuse(c, remedy, "%s: profctl was built without %s", what, build_option);
}

int verb_call(struct client *c, const struct verb *v, int n_words, char **words)
{
    _cleanup_(freep) void *values = xcalloc(1, MAX(v->values_size, (size_t)1));
    const struct option_set set = {v->options, v->n_options, values};

    options_init(&set);
    int status = v->run(c, values, n_words, words);
    options_done(&set);
    return status;
}

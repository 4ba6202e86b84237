/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/step_name.h"

/* Numbers in names are counts; what has more digits is none. */
#define DIGITS_MAX 15

static const char *const phases[_STEP_PHASE_MAX] = {
    [PHASE_UNKNOWN] = "",    [PHASE_PREFILL] = "prefill",   [PHASE_DECODE] = "decode",
    [PHASE_MIXED] = "mixed", [PHASE_TRAINING] = "training",
};

static const char *const sources[_STEP_SOURCE_MAX] = {
    [STEP_VLLM] = "vllm",           [STEP_SGLANG] = "sglang",
    [STEP_ATOM] = "atom",           [STEP_TENSORRT] = "tensorrt-llm",
    [STEP_RTP_PHASE] = "rtp-llm",   [STEP_RTP_EXECUTION] = "rtp-llm",
    [STEP_RTP_ENGINE] = "rtp-llm",  [STEP_XDIT] = "xdit",
    [STEP_LIGHTNING] = "lightning", [STEP_PROFILER] = "profiler",
    [STEP_BY_PERIOD] = "period",    [STEP_BY_GRAPH] = "graph",
};

const char *step_phase_name(enum step_phase phase)
{
    return phases[phase];
}

enum step_phase step_phase_find(const char *name)
{
    for (enum step_phase p = PHASE_PREFILL; p < _STEP_PHASE_MAX; p++)
        if (strcmp(phases[p], name) == 0)
            return p;
    return _STEP_PHASE_MAX;
}

const char *step_source_name(enum step_source source)
{
    return sources[source];
}

/* -- Forms -------------------------------------------------------------------------------------------- */

/* What a number in a name counts, by the letter that stands for it in a form. */
enum step_name_field {
    FIELD_CONTEXT,           /* c: requests that are being prefilled */
    FIELD_CONTEXT_TOKENS,    /* C */
    FIELD_GENERATION,        /* g: requests that are being decoded */
    FIELD_GENERATION_TOKENS, /* G */
    FIELD_INDEX,             /* i */
    FIELD_REQUESTS,          /* r: of unknown kind */
    _FIELD_MAX
};
static const char field_letters[] = "cCgGir";

/* %x is a number, %_ one that is of no interest; the name ends where the form does. */
static const struct {
    enum step_source source;
    enum step_phase phase; /* PHASE_UNKNOWN: by what is being prefilled and decoded */
    const char *form;
} forms[] = {
    {STEP_VLLM, PHASE_UNKNOWN, "execute_context_%c(%C)_generation_%g(%G)"},
    {STEP_VLLM, PHASE_UNKNOWN, "execute_context_%c(%C_%_)_generation_%g(%G)"},
    {STEP_VLLM, PHASE_UNKNOWN, "execute_context_%c(%C)_generation_%g(%G_%_)"},
    {STEP_VLLM, PHASE_UNKNOWN, "execute_context_%c(%C_%_)_generation_%g(%G_%_)"},
    {STEP_VLLM, PHASE_UNKNOWN,
     "execute_%__context_%c(sq%Csk%_sqsq%_sqsk%_)_generation_%g(sq%Gsk%_sqsq%_sqsk%_)"},
    {STEP_VLLM, PHASE_UNKNOWN, "execute_new_%c_cached_%g"},
    {STEP_TENSORRT, PHASE_UNKNOWN, "[Executor] _forward_step %i: %c ctx reqs, %C ctx tokens, %g gen reqs"},
    {STEP_TENSORRT, PHASE_UNKNOWN, "[Executor] _forward_step %i: %c ctx reqs, %g gen reqs"},
    {STEP_RTP_PHASE, PHASE_UNKNOWN, "executor.mtp.prefill_step(prefill_stream_size=%c)"},
    {STEP_RTP_PHASE, PHASE_UNKNOWN, "executor.mtp.decode_step(decode_stream_size=%g)"},
    {STEP_RTP_EXECUTION, PHASE_UNKNOWN, "rtp.execution(id=%i)"},
    {STEP_RTP_ENGINE, PHASE_UNKNOWN, "engine.normal.step_work"},
    {STEP_XDIT, PHASE_UNKNOWN, "execute_diffusion_%r_%_x%_"},
    {STEP_LIGHTNING, PHASE_TRAINING, "[pl][profile]run_training_batch"},
    {STEP_PROFILER, PHASE_UNKNOWN, "ProfilerStep#%i"},
};

/* Advances *at; false where no number stands there. */
static bool step_name_read_number(struct text name, size_t *at, int64_t *ret)
{
    size_t begin = *at;

    for (*ret = 0; *at < name.size && name.p[*at] >= '0' && name.p[*at] <= '9'; ++*at) {
        if (*at - begin == DIGITS_MAX)
            return false;
        *ret = *ret * 10 + (name.p[*at] - '0');
    }
    return *at > begin;
}

static bool matches_form(const char *form, struct text name, int64_t fields[_FIELD_MAX])
{
    size_t at = 0;

    for (size_t i = 0; i < _FIELD_MAX; i++)
        fields[i] = COLUMN_NULL;
    for (const char *f = form; *f; f++) {
        int64_t number;
        if (*f != '%') {
            if (at == name.size || name.p[at++] != *f)
                return false;
            continue;
        }
        if (!step_name_read_number(name, &at, &number))
            return false;
        const char *letter = strchr(field_letters, *++f);
        if (letter)
            fields[letter - field_letters] = number;
    }
    return at == name.size;
}

static int64_t step_name_sum(int64_t a, int64_t b)
{
    return a == COLUMN_NULL ? b : b == COLUMN_NULL ? a : a + b;
}

static enum step_phase phase_of(int64_t context, int64_t generation)
{
    return context > 0 && generation > 0 ? PHASE_MIXED
           : context > 0                 ? PHASE_PREFILL
           : generation > 0              ? PHASE_DECODE
                                         : PHASE_UNKNOWN;
}

static bool parse_form(struct text name, struct step_name *ret)
{
    int64_t f[_FIELD_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        if (!matches_form(forms[i].form, name, f))
            continue;
        *ret = (struct step_name){
            .source = forms[i].source,
            .phase = forms[i].phase ? forms[i].phase : phase_of(f[FIELD_CONTEXT], f[FIELD_GENERATION]),
            .index = f[FIELD_INDEX],
            .tokens = step_name_sum(f[FIELD_CONTEXT_TOKENS], f[FIELD_GENERATION_TOKENS]),
            .requests =
                step_name_sum(step_name_sum(f[FIELD_CONTEXT], f[FIELD_GENERATION]), f[FIELD_REQUESTS]),
        };
        return true;
    }
    return false;
}

/* -- Words with values in brackets: step[EXTEND bs=2 toks=14721], decode[bs=64 tok=64] ------------------- */

static const struct {
    const char *begin;
    enum step_source source;
    enum step_phase phase;
    bool is_token_each; /* a request has one token unless the name contains another number */
} words[] = {
    {"step[DECODE ", STEP_SGLANG, PHASE_DECODE, true},
    {"step[TARGET_VERIFY ", STEP_SGLANG, PHASE_DECODE, false},
    {"step[DRAFT_EXTEND ", STEP_SGLANG, PHASE_DECODE, false},
    {"step[EXTEND ", STEP_SGLANG, PHASE_PREFILL, false},
    {"step[SPLIT_PREFILL ", STEP_SGLANG, PHASE_PREFILL, false},
    {"step[MIXED ", STEP_SGLANG, PHASE_MIXED, false},
    {"step[", STEP_SGLANG, PHASE_UNKNOWN, false},
    {"prefill[bs=", STEP_ATOM, PHASE_PREFILL, false},
    {"decode[bs=", STEP_ATOM, PHASE_DECODE, true},
};

/* The number after " key=" or "[key=". */
static int64_t step_name_value_of(struct text name, const char *key)
{
    size_t n = strlen(key);
    int64_t number;

    for (size_t at = 1; at + n + 1 < name.size; at++) {
        size_t digits = at + n + 1;
        if ((name.p[at - 1] == ' ' || name.p[at - 1] == '[') && memcmp(name.p + at, key, n) == 0 &&
            name.p[at + n] == '=' && step_name_read_number(name, &digits, &number))
            return number;
    }
    return COLUMN_NULL;
}

static int64_t step_name_tokens_of(struct text name)
{
    static const char *const keys[] = {"toks", "tok"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (step_name_value_of(name, keys[i]) != COLUMN_NULL)
            return step_name_value_of(name, keys[i]);
    return step_name_sum(step_name_value_of(name, "c_sq"), step_name_value_of(name, "g_sq"));
}

static bool parse_words(struct text name, struct step_name *ret)
{
    if (name.size == 0 || name.p[name.size - 1] != ']')
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i].begin);
        if (name.size <= n || memcmp(name.p, words[i].begin, n) != 0)
            continue;
        int64_t requests = step_name_value_of(name, "bs"), tokens = step_name_tokens_of(name);
        if (requests == COLUMN_NULL)
            return false;
        *ret = (struct step_name){
            .source = words[i].source,
            .phase = words[i].phase,
            .index = COLUMN_NULL,
            .tokens = tokens == COLUMN_NULL && words[i].is_token_each ? requests : tokens,
            .requests = requests,
        };
        return true;
    }
    return false;
}

bool step_name_parse(struct text name, struct step_name *ret)
{
    return parse_form(name, ret) || parse_words(name, ret);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/engine_version.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#define NUMBER_DIGITS_MAX 6 /* more is no version: dates have eight */

/* The words of PEP 440, with which a suffix begins. */
static const struct {
    const char *word;
    enum version_stage stage;
} stages[] = {
    {"alpha", VERSION_ALPHA},  {"a", VERSION_ALPHA},     {"beta", VERSION_BETA}, {"b", VERSION_BETA},
    {"rc", VERSION_CANDIDATE}, {"c", VERSION_CANDIDATE}, {"post", VERSION_POST},
};

/* Reads the digits at *p and moves *p after them; -EINVAL if there are none or too many. */
static int version_number(const char **p, unsigned *ret)
{
    size_t n = strspn(*p, "0123456789");

    if (n == 0 || n > NUMBER_DIGITS_MAX)
        return -EINVAL;
    *ret = (unsigned)strtoul(*p, NULL, 10);
    *p += n;
    return 0;
}

static void version_skip_separator(const char **p)
{
    if (**p == '.' || **p == '-' || **p == '_')
        (*p)++;
}

/* "rc2", ".post1": leaves *p where there is none. */
static void version_take_stage(const char **p, struct engine_version *v)
{
    const char *at = *p;

    version_skip_separator(&at);
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
        size_t n = strlen(stages[i].word);
        const char *number = at + n;
        if (strncasecmp(at, stages[i].word, n) != 0 || isalpha((unsigned char)*number))
            continue;
        version_skip_separator(&number);
        v->stage = stages[i].stage;
        if (version_number(&number, &v->stage_number) < 0)
            v->stage_number = 0;
        *p = number;
        return;
    }
}

/* ".dev20", ".dev20250801": the number says nothing that can be compared. */
static void version_take_dev(const char **p, struct engine_version *v)
{
    const char *at = *p;

    version_skip_separator(&at);
    if (strncasecmp(at, "dev", 3) != 0)
        return;
    at += 3;
    at += strspn(at, "0123456789");
    if (isalpha((unsigned char)*at))
        return;
    v->is_dev = true;
    if (v->stage == VERSION_RELEASE)
        v->stage = VERSION_DEV;
    *p = at;
}

int engine_version_parse(const char *text, struct engine_version *ret)
{
    struct engine_version v = {.stage = VERSION_RELEASE};
    size_t n = 0;

    if (!text)
        return -EINVAL;
    const char *p = text + (*text == 'v' || *text == 'V');
    do {
        if (n > 0)
            p++;
        if (n == VERSION_PARTS_MAX || version_number(&p, &v.parts[n]) < 0)
            return -EINVAL;
        n++;
    } while (*p == '.' && isdigit((unsigned char)p[1]));
    if (n < 2)
        return -EINVAL;
    version_take_stage(&p, &v);
    version_take_dev(&p, &v);
    /* A local part names a build: that of a commit ("+g017e9f444.d20260817"), or only its platform ("+cu129"). */
    if (p[0] == '+' && p[1] == 'g' && isxdigit((unsigned char)p[2]))
        v.is_dev = true;
    else if (*p != '\0' && *p != '+')
        return -EINVAL;
    *ret = v;
    return 0;
}

static int version_compare_release(const struct engine_version *one, const struct engine_version *other)
{
    for (size_t i = 0; i < VERSION_PARTS_MAX; i++)
        if (one->parts[i] != other->parts[i])
            return one->parts[i] < other->parts[i] ? -1 : 1;
    return 0;
}

int engine_version_compare(const struct engine_version *one, const struct engine_version *other)
{
    int r = version_compare_release(one, other);

    if (r != 0)
        return r;
    if (one->stage != other->stage)
        return one->stage < other->stage ? -1 : 1;
    if (one->stage_number != other->stage_number)
        return one->stage_number < other->stage_number ? -1 : 1;
    return 0;
}

/* Without its tags, as after a shallow clone, a build from source is called 0.0.0.dev1 or 0.1.dev1. */
static bool version_has_no_tag(const struct engine_version *v)
{
    return v->is_dev && v->parts[0] == 0 && v->parts[1] <= 1;
}

/* The last version that a build from source surely has all of: ".dev" names what follows a tag. */
static struct engine_version version_tag_before(const struct engine_version *v)
{
    struct engine_version tag = *v;

    if (v->stage == VERSION_DEV && v->parts[2] > 0) {
        tag.parts[2]--;
        tag.stage = VERSION_RELEASE;
    } else if (v->stage != VERSION_DEV && v->stage != VERSION_RELEASE && v->stage_number > 0) {
        tag.stage_number--;
    }
    return tag;
}

/* The first release that a build from source surely comes before. Some engines count their releases in the third part,
 * which the change shows. */
static struct engine_version version_release_after(const struct engine_version *v,
                                                   const struct engine_version *since)
{
    struct engine_version next = {.parts = {v->parts[0], v->parts[1], v->parts[2]}, .stage = VERSION_RELEASE};

    if (since->parts[2] > 0) {
        next.parts[2]++;
    } else {
        next.parts[1]++;
        next.parts[2] = 0;
    }
    return next;
}

static enum version_answer version_of_build_has(const struct engine_version *v,
                                                const struct engine_version *not_before,
                                                const struct engine_version *since)
{
    const struct engine_version tag = version_tag_before(v), next = version_release_after(v, since);

    if (version_compare_release(&next, not_before) < 0)
        return VERSION_NO;
    return engine_version_compare(&tag, since) > 0 ||
                   (tag.stage != VERSION_DEV && engine_version_compare(&tag, since) == 0)
               ? VERSION_YES
               : VERSION_UNCERTAIN;
}

enum version_answer version_has(const char *version, const struct version_change *change)
{
    struct engine_version v, not_before, since;

    if (engine_version_parse(version, &v) < 0 || engine_version_parse(change->not_before, &not_before) < 0 ||
        engine_version_parse(change->since, &since) < 0 || version_has_no_tag(&v))
        return VERSION_UNCERTAIN;
    if (v.is_dev)
        return version_of_build_has(&v, &not_before, &since);
    if (engine_version_compare(&v, &not_before) < 0)
        return VERSION_NO;
    return engine_version_compare(&v, &since) >= 0 ? VERSION_YES : VERSION_UNCERTAIN;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any API that takes a JSON object and answers with texts: the body is the workload's template, in whose
 * strings {prompt}, {model} and {max_tokens} are filled in. A string that is "{max_tokens}" and nothing else
 * becomes a number.
 */
#include "daemon/load/api.h"

#include "base/alloc.h"
#include <errno.h>
#include <inttypes.h>

#define POINTER_MAX 256

static json_t *filled(const char *text, const struct api_request *q)
{
    char max_tokens[24] = "";

    if (q->osl > 0)
        snprintf(max_tokens, sizeof(max_tokens), "%" PRId64, q->osl);
    if (streq(text, "{max_tokens}"))
        return q->osl > 0 ? json_integer(q->osl) : json_null();
    const struct {
        const char *name, *value;
    } fields[] = {
        {"{prompt}", q->prompt}, {"{model}", q->model ? q->model : ""}, {"{max_tokens}", max_tokens}};
    char *out = NULL;
    size_t size, i;
    FILE *f = xmemstream(&out, &size);

    while (*text) {
        for (i = 0; i < ARRAY_SIZE(fields) && !starts_with(text, fields[i].name); i++)
            ;
        if (i < ARRAY_SIZE(fields)) {
            fputs(fields[i].value, f);
            text += strlen(fields[i].name);
        } else {
            fputc(*text++, f);
        }
    }
    fclose(f);
    json_t *value = json_text(out);
    free(out);
    return value;
}

/* Its depth is that of a parsed workload, which jansson bounds. */
static json_t *fill(const json_t *v, const struct api_request *q)
{
    const char *key;
    json_t *value, *copy;
    size_t i;

    if (json_is_string(v))
        return filled(json_string_value(v), q);
    if (json_is_object(v)) {
        copy = json_object();
        json_object_foreach((json_t *)v, key, value)
            json_object_set_new(copy, key, fill(value, q));
        return copy;
    }
    if (json_is_array(v)) {
        copy = json_array();
        json_array_foreach((json_t *)v, i, value)
            json_array_append_new(copy, fill(value, q));
        return copy;
    }
    return json_deep_copy(v);
}

static json_t *body_of(const struct api_request *q)
{
    return fill(q->workload->template, q);
}

/* The steps of "/choices/0/text" in buf. False where there are too many. */
static bool split(const char *pointer, char buf[static POINTER_MAX], struct json_wanted *ret)
{
    size_t n = 0;

    if (strlen(pointer) >= POINTER_MAX)
        return false;
    strcpy(buf, pointer);
    *ret = (struct json_wanted){0};
    for (char *p = buf; *p == '/'; n++) {
        if (n == JSON_SCAN_STEPS_MAX)
            return false;
        *p++ = '\0';
        ret->steps[n] = p;
        p += strcspn(p, "/");
    }
    return true;
}

static int event_of(const struct workload *w, const char *text, size_t size, struct api_event *ret)
{
    static const struct json_wanted errors[] = {{{"error"}}, {{"error", "message"}}};
    struct json_found found[ARRAY_SIZE(errors)];
    char steps[POINTER_MAX];
    struct json_wanted place;

    api_event_init(ret);
    if (json_scan(text, size, errors, ARRAY_SIZE(errors), found) < 0)
        return -EINVAL;
    api_put_error(ret, &found[0], &found[1]);
    if (!w->template_text)
        json_scan_any_string(text, size, &ret->text);
    else if (split(w->template_text, steps, &place))
        json_scan(text, size, &place, 1, &ret->text);
    return 0;
}

const struct api api_template = {
    .name = "template",
    .path = "/",
    .body = body_of,
    .event = event_of,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_head.h"

#include "archive/archive_url.h"
#include "archive/s3_xml.h"
#include "base/alloc.h"
#include <errno.h>
#include <strings.h>
#include <time.h>

#define RETRY_AFTER_LONGEST_S INT64_C(86400)
/* The year 2116: twice its nanoseconds do not overflow int64_t. */
#define DATE_MAX_S INT64_C(4611686018)

int64_t s3_date_parse(const char *text)
{
    static const char *const formats[] = {"%a, %d %b %Y %H:%M:%S GMT", "%Y-%m-%dT%H:%M:%S"};

    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        struct tm tm = {0};
        if (!strptime(text, formats[i], &tm))
            continue;
        int64_t when = timegm(&tm);
        return when > 0 && when < DATE_MAX_S ? when : 0;
    }
    return 0;
}

static void s3_head_take_length(struct s3_head *h, const char *value)
{
    h->has_length = s3_number_parse(value, &h->length);
}

static void s3_head_take_range(struct s3_head *h, const char *value)
{
    _cleanup_(freep) char *copy = xstrdup(value);
    char *dash = strchr(copy, '-'), *slash = strchr(copy, '/');

    if (!starts_with(copy, "bytes ") || !dash || !slash || slash < dash)
        return;
    *dash = *slash = '\0';
    h->has_range = s3_number_parse(copy + strlen("bytes "), &h->first) &&
                   s3_number_parse(dash + 1, &h->last) && s3_number_parse(slash + 1, &h->total) &&
                   h->first <= h->last && h->last < h->total;
}

static void s3_head_take_etag(struct s3_head *h, const char *value)
{
    if (!s3_etag_parse(value, h->etag))
        h->etag[0] = '\0';
}

static void s3_head_take_sha256(struct s3_head *h, const char *value)
{
    if (archive_sha256_is_valid(value))
        snprintf(h->sha256, sizeof(h->sha256), "%s", value);
}

static void s3_head_take_region(struct s3_head *h, const char *value)
{
    if (archive_region_is_valid(value))
        snprintf(h->region, sizeof(h->region), "%s", value);
}

static void s3_head_take_location(struct s3_head *h, const char *value)
{
    size_t n = 0;

    for (; value[n] > ' ' && value[n] <= '~' && n < sizeof(h->location) - 1; n++)
        h->location[n] = value[n];
    h->location[n] = '\0';
}

static void s3_head_take_modified(struct s3_head *h, const char *value)
{
    h->modified_s = s3_date_parse(value);
}

static void s3_head_take_date(struct s3_head *h, const char *value)
{
    h->date_s = s3_date_parse(value);
}

static void s3_head_take_retry(struct s3_head *h, const char *value)
{
    uint64_t seconds = 0;

    if (s3_number_parse(value, &seconds))
        h->retry_after_s = (int64_t)MIN(seconds, (uint64_t)RETRY_AFTER_LONGEST_S);
    else
        h->retry_date_s = s3_date_parse(value);
}

static const struct {
    const char *name;
    void (*take)(struct s3_head *h, const char *value);
} fields[] = {
    {"content-length", s3_head_take_length},
    {"content-range", s3_head_take_range},
    {"etag", s3_head_take_etag},
    {"x-amz-meta-sha256", s3_head_take_sha256},
    {"date", s3_head_take_date},
    {"x-amz-bucket-region", s3_head_take_region},
    {"location", s3_head_take_location},
    {"last-modified", s3_head_take_modified},
    {"retry-after", s3_head_take_retry},
};

/* "HTTP/1.1 200 OK": libcurl has checked it. */
static void s3_head_begin(struct s3_head *h, const char *line)
{
    const char *status = strchr(line, ' ');

    *h = (struct s3_head){.size = h->size, .status = status ? atoi(status) : 0};
}

int s3_head_take(struct s3_head *h, const char *line, size_t size)
{
    h->size += size;
    if (h->size > S3_HEAD_MAX)
        return -EMSGSIZE;
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r' || line[size - 1] == ' '))
        size--;
    if (size > S3_HEAD_VALUE_MAX || memchr(line, '\0', size))
        return 0;
    _cleanup_(freep) char *text = xstrndup(line, size);
    if (starts_with(text, "HTTP/")) {
        s3_head_begin(h, text);
        return 0;
    }
    char *colon = strchr(text, ':');
    if (!colon)
        return 0;
    *colon = '\0';
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        if (strcasecmp(fields[i].name, text) == 0)
            fields[i].take(h, value);
    return 0;
}

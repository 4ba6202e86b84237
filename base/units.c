/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include "base/clock.h"
#include "base/util.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <time.h>

struct unit_factor {
    const char *name;
    double factor;
};

static const struct unit_factor duration_units[] = {
    {"ns", 1},         {"us", 1e3},      {"ms", 1e6},       {"s", 1e9},          {"sec", 1e9},
    {"seconds", 1e9},  {"second", 1e9},  {"min", 60e9},     {"m", 60e9},         {"minutes", 60e9},
    {"minute", 60e9},  {"h", 3600e9},    {"hours", 3600e9}, {"hour", 3600e9},    {"d", 86400e9},
    {"days", 86400e9}, {"day", 86400e9}, {"w", 604800e9},   {"weeks", 604800e9}, {"week", 604800e9},
};

static const struct unit_factor size_units[] = {
    {"", 1},
    {"K", 1024.0},
    {"M", 1024.0 * 1024},
    {"G", 1024.0 * 1024 * 1024},
    {"T", 1024.0 * 1024 * 1024 * 1024},
    {"P", 1024.0 * 1024 * 1024 * 1024 * 1024},
};

/* A plain decimal number; strtod alone would also take hex, "nan", signs and exponents. */
static int units_take_number(const char **s, double *ret)
{
    const char *p = *s;
    size_t digits = strspn(p, "0123456789");
    size_t n = digits;
    if (p[n] == '.') {
        size_t fraction = strspn(p + n + 1, "0123456789");
        digits += fraction;
        n += 1 + fraction;
    }
    if (digits == 0 || n > 30)
        return -EINVAL;
    char text[32];
    memcpy(text, p, n);
    text[n] = '\0';
    *ret = strtod(text, NULL);
    *s = p + n;
    return 0;
}

static const struct unit_factor *units_find(const struct unit_factor *units, size_t n_units, const char *name,
                                            size_t n)
{
    for (size_t i = 0; i < n_units; i++)
        if (strlen(units[i].name) == n && strncmp(units[i].name, name, n) == 0)
            return &units[i];
    return NULL;
}

int parse_duration(const char *s, int64_t *ret_ns)
{
    double total = 0;

    if (streq(s, "infinity")) {
        *ret_ns = INT64_MAX;
        return 0;
    }
    if (!*s)
        return -EINVAL;
    while (*s) {
        double number, factor = 1e9;
        if (units_take_number(&s, &number) < 0)
            return -EINVAL;
        s += strspn(s, " ");
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
        if (n > 0) {
            const struct unit_factor *unit = units_find(duration_units, ARRAY_SIZE(duration_units), s, n);
            if (!unit)
                return -EINVAL;
            factor = unit->factor;
        }
        s += n;
        s += strspn(s, " ");
        total += number * factor;
    }
    if (total >= (double)INT64_MAX)
        return -EINVAL;
    *ret_ns = llround(total);
    return 0;
}

int parse_size(const char *s, int64_t *ret_bytes)
{
    double number;
    if (units_take_number(&s, &number) < 0)
        return -EINVAL;
    s += strspn(s, " ");
    size_t n = strlen(s);
    if (n > 0 && s[n - 1] == 'B')
        n--;
    if (n > 1 && s[n - 1] == 'i')
        n--;
    char name[2] = {0};
    if (n > 1)
        return -EINVAL;
    if (n == 1)
        name[0] = (char)toupper((unsigned char)s[0]);
    const struct unit_factor *unit = units_find(size_units, ARRAY_SIZE(size_units), name, n);
    if (!unit || number * unit->factor >= (double)INT64_MAX)
        return -EINVAL;
    *ret_bytes = llround(number * unit->factor);
    return 0;
}

static int units_parse_calendar(const char *s, int64_t now_ns, int64_t *ret_wall_ns)
{
    static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
                                          "%Y-%m-%d",          "%H:%M:%S",          "%H:%M"};
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        time_t now = now_ns / NS_PER_S;
        struct tm tm;
        localtime_r(&now, &tm);
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        const char *end = strptime(s, formats[i], &tm);
        if (!end)
            continue;
        double fraction = 0;
        if (*end == '.') {
            size_t digits = strspn(end + 1, "0123456789");
            if (digits == 0 || digits > 9)
                continue;
            fraction = strtod(end, NULL);
            end += 1 + digits;
        }
        bool utc = streq(end, "Z");
        if (*end && !utc)
            continue;
        tm.tm_isdst = -1;
        time_t t = utc ? timegm(&tm) : mktime(&tm);
        *ret_wall_ns = t * NS_PER_S + llround(fraction * 1e9);
        return 0;
    }
    return -EINVAL;
}

int parse_time(const char *s, int64_t now_ns, int bare_is_ago, int64_t *ret_wall_ns)
{
    int64_t duration;

    if (streq(s, "now")) {
        *ret_wall_ns = now_ns;
        return 0;
    }
    if (*s == '@') {
        const char *number = s + 1;
        double seconds;
        if (units_take_number(&number, &seconds) < 0 || *number || seconds > 9e9)
            return -EINVAL;
        *ret_wall_ns = llround(seconds * 1e9);
        return 0;
    }
    int direction = *s == '+' ? 1 : *s == '-' ? -1 : bare_is_ago ? -1 : 1;
    if (parse_duration(s + (*s == '+' || *s == '-'), &duration) == 0 && duration <= now_ns) {
        *ret_wall_ns = now_ns + direction * duration;
        return 0;
    }
    return units_parse_calendar(s, now_ns, ret_wall_ns);
}

int parse_bool(const char *s, int *ret)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (streq(s, yes[i]) || streq(s, no[i])) {
            *ret = streq(s, yes[i]);
            return 0;
        }
    }
    return -EINVAL;
}

char *format_size(char *buf, int64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double n = (double)bytes;
    size_t i = 0;
    while (n >= 1023.95 && i < ARRAY_SIZE(names) - 1) {
        n /= 1024;
        i++;
    }
    snprintf(buf, UNIT_TEXT_MAX, i == 0 ? "%.0f %s" : n < 99.95 ? "%.1f %s" : "%.0f %s", n, names[i]);
    return buf;
}

/* "3.1 ms", "49 us": values of ten or more need no tenths. */
static void units_format_small(char *buf, double n, const char *unit)
{
    snprintf(buf, UNIT_TEXT_MAX, n < 9.95 ? "%.1f %s" : "%.0f %s", n, unit);
}

char *format_duration(char *buf, int64_t ns)
{
    int64_t s = ns / NS_PER_S + (ns % NS_PER_S >= NS_PER_S / 2);
    if (ns == INT64_MAX)
        snprintf(buf, UNIT_TEXT_MAX, "infinity");
    else if (ns == 0)
        snprintf(buf, UNIT_TEXT_MAX, "0s");
    else if (ns < NS_PER_MS - NS_PER_US / 2)
        units_format_small(buf, ns / 1e3, "us");
    else if (ns < NS_PER_S - NS_PER_MS / 2)
        units_format_small(buf, ns / 1e6, "ms");
    else if (ns < 60 * NS_PER_S)
        snprintf(buf, UNIT_TEXT_MAX, "%.1fs", ns / 1e9);
    else if (s < 3600)
        snprintf(buf, UNIT_TEXT_MAX, "%dmin %ds", (int)(s / 60), (int)(s % 60));
    else if (s < 86400)
        snprintf(buf, UNIT_TEXT_MAX, "%dh %dmin", (int)(s / 3600), (int)(s % 3600 / 60));
    else
        snprintf(buf, UNIT_TEXT_MAX, "%lldd %dh", (long long)(s / 86400), (int)(s % 86400 / 3600));
    return buf;
}

char *format_time(char *buf, int64_t wall_ns_)
{
    time_t t = wall_ns_ / NS_PER_S;
    struct tm tm;
    localtime_r(&t, &tm);
    strftime(buf, UNIT_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &tm);
    return buf;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yajl over a trace (a file, or stdin as "-"), in pieces: every event visited, names, categories and
 * durations looked at.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#define PIECE       (256 << 10)
#define EVENT_DEPTH 2 /* of an event's members: the outer object, the event */

struct visit {
    unsigned maps;
    enum { KEY_OTHER, KEY_DUR, KEY_CATEGORY } key;
    bool is_gpu;
    double dur, gpu;
    size_t events;
};

static int start_map(void *arg)
{
    struct visit *v = arg;

    if (++v->maps == EVENT_DEPTH) {
        v->is_gpu = false;
        v->dur = 0;
    }
    return 1;
}

static int end_map(void *arg)
{
    struct visit *v = arg;

    if (v->maps-- == EVENT_DEPTH) {
        v->events++;
        v->gpu += v->is_gpu ? v->dur : 0;
    }
    return 1;
}

static int is_word(const unsigned char *p, size_t size, const char *word)
{
    return size == strlen(word) && memcmp(p, word, size) == 0;
}

static int map_key(void *arg, const unsigned char *p, size_t size)
{
    struct visit *v = arg;

    v->key = v->maps != EVENT_DEPTH    ? KEY_OTHER
             : is_word(p, size, "dur") ? KEY_DUR
             : is_word(p, size, "cat") ? KEY_CATEGORY
                                       : KEY_OTHER;
    return 1;
}

static int string(void *arg, const unsigned char *p, size_t size)
{
    struct visit *v = arg;

    if (v->key == KEY_CATEGORY)
        v->is_gpu = is_word(p, size, "kernel") || is_word(p, size, "gpu_memcpy");
    return 1;
}

static int number(void *arg, const char *p, size_t size)
{
    struct visit *v = arg;

    (void)size;
    if (v->key == KEY_DUR)
        v->dur = strtod(p, NULL);
    return 1;
}

int main(int argc, char **argv)
{
    static const yajl_callbacks callbacks = {.yajl_start_map = start_map,
                                             .yajl_end_map = end_map,
                                             .yajl_map_key = map_key,
                                             .yajl_string = string,
                                             .yajl_number = number};
    static unsigned char piece[PIECE];
    struct visit v = {0};
    FILE *f = argc == 2 ? strcmp(argv[1], "-") ? fopen(argv[1], "re") : stdin : NULL;
    yajl_handle parser = yajl_alloc(&callbacks, NULL, &v);
    size_t n;

    if (!f || !parser) {
        perror("peer-yajl FILE|-");
        return EXIT_FAILURE;
    }
    while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
        if (yajl_parse(parser, piece, n) != yajl_status_ok) {
            fprintf(stderr, "peer-yajl: not JSON\n");
            return EXIT_FAILURE;
        }
    if (yajl_complete_parse(parser) != yajl_status_ok)
        return EXIT_FAILURE;
    printf("{\"events\": %zu, \"gpu_us\": %.3f}\n", v.events, v.gpu);
    yajl_free(parser);
    fclose(f);
    return EXIT_SUCCESS;
}

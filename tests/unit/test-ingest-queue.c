/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of files: single rules, and whole days of random files whose waits are measured. */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/ingest/queue.h"
#include "tests/unit/cmocka-all.h"

#define SLICE INGEST_QUEUE_SLICE_NS
#define SMALL INT64_C(1000)
#define LARGE (INGEST_QUEUE_SHORT_BYTES + 1)

static void begin_all(struct ingest_queue *q, int64_t now)
{
    struct queue_file *f;

    while ((f = ingest_queue_next(q, now)))
        ingest_queue_begin(q, f, now);
}

static void test_in_order_of_arrival(void **state)
{
    struct queue_file f[4] = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 2);
    for (int i = 0; i < 4; i++)
        ingest_queue_add(&q, &f[i], "a", "x", SMALL);
    begin_all(&q, 0);
    assert_true(f[0].running && f[1].running && !f[2].running);
    ingest_queue_remove(&q, &f[1]);
    begin_all(&q, 0);
    assert_true(f[2].running && !f[3].running);
    ingest_queue_done(&q);
}

static void test_users_take_turns_and_so_do_their_sources(void **state)
{
    static const struct {
        const char *user, *source;
    } files[] = {{"a", "x"}, {"a", "x"}, {"a", "y"}, {"b", "z"}, {"b", "z"}};
    static const int order[] = {0, 3, 2, 4, 1};
    struct queue_file f[ARRAY_SIZE(files)] = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 1);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        ingest_queue_add(&q, &f[i], files[i].user, files[i].source, SMALL);
    for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
        struct queue_file *next = ingest_queue_next(&q, 0);
        assert_ptr_equal(next, &f[order[i]]);
        ingest_queue_begin(&q, next, 0);
        ingest_queue_remove(&q, next);
    }
    ingest_queue_done(&q);
}

/* Whoever comes and goes is not ahead of who has waited since. */
static void test_coming_anew_is_no_advantage(void **state)
{
    struct queue_file a[3] = {0}, b[2] = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 1);
    for (int i = 0; i < 3; i++)
        ingest_queue_add(&q, &a[i], "a", "x", SMALL);
    begin_all(&q, 0);
    ingest_queue_add(&q, &b[0], "b", "x", SMALL);
    for (int i = 0; i < 2; i++) {
        ingest_queue_remove(&q, &a[i]);
        begin_all(&q, 0);
    }
    assert_true(b[0].running);
    ingest_queue_remove(&q, &b[0]);
    ingest_queue_add(&q, &b[1], "b", "x", SMALL);
    assert_ptr_equal(ingest_queue_next(&q, 0), &a[2]);
    ingest_queue_done(&q);
}

static void test_a_small_file_takes_a_slot_of_large_ones(void **state)
{
    struct queue_file large[3] = {0}, small = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 2);
    for (int i = 0; i < 3; i++)
        ingest_queue_add(&q, &large[i], "a", "x", LARGE);
    begin_all(&q, 0);
    assert_true(large[0].running && large[1].running);
    assert_null(ingest_queue_yield(&q, 1000 * SLICE));
    ingest_queue_add(&q, &small, "b", "x", SMALL);
    assert_ptr_equal(ingest_queue_yield(&q, 1), &large[0]);
    assert_null(ingest_queue_yield(&q, 1));
    ingest_queue_put_back(&q, &large[0], 1);
    begin_all(&q, 1);
    assert_true(small.running && large[1].running && !large[2].running);
    ingest_queue_remove(&q, &small);
    begin_all(&q, 2);
    assert_true(large[2].running);
    ingest_queue_done(&q);
}

static void test_a_file_is_short_for_one_slice(void **state)
{
    struct queue_file f[2] = {0}, other = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 2);
    ingest_queue_add(&q, &f[0], "a", "x", SMALL);
    ingest_queue_add(&q, &f[1], "a", "x", SMALL);
    begin_all(&q, 0);
    assert_int_equal(ingest_queue_due(&q, 0), INT64_MAX);
    ingest_queue_add(&q, &other, "b", "x", SMALL);
    assert_null(ingest_queue_yield(&q, SLICE - 1));
    assert_int_equal(ingest_queue_due(&q, 0), SLICE);
    struct queue_file *yields = ingest_queue_yield(&q, SLICE);
    assert_non_null(yields);
    ingest_queue_put_back(&q, yields, SLICE);
    begin_all(&q, SLICE);
    assert_true(other.running && !yields->running);
    ingest_queue_done(&q);
}

/* Their rank files are as large; nobody is helped if they are begun again and again. */
static void test_files_of_one_source_do_not_displace_one_another(void **state)
{
    struct queue_file f[8] = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 2);
    for (int i = 0; i < 8; i++)
        ingest_queue_add(&q, &f[i], "a", "x", i < 6 ? LARGE : SMALL);
    begin_all(&q, 0);
    for (int64_t now = 0; now < 100 * SLICE; now += SLICE / 2)
        assert_null(ingest_queue_yield(&q, now));
    ingest_queue_done(&q);
}

static void test_with_one_slot_a_small_file_gets_one_more(void **state)
{
    struct queue_file large = {0}, small[2] = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 1);
    ingest_queue_add(&q, &large, "a", "x", LARGE);
    ingest_queue_add(&q, &small[0], "a", "x", SMALL);
    ingest_queue_add(&q, &small[1], "a", "x", SMALL);
    begin_all(&q, 0);
    assert_true(large.running);
    assert_int_equal(q.n_running, 2);
    ingest_queue_done(&q);
}

static void test_a_large_file_keeps_a_slot_of_small_ones(void **state)
{
    struct queue_file large = {0}, small[4] = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 2);
    for (int i = 0; i < 4; i++)
        ingest_queue_add(&q, &small[i], "a", "x", SMALL);
    ingest_queue_add(&q, &large, "b", "x", LARGE);
    begin_all(&q, 0);
    assert_true(large.running);
    ingest_queue_done(&q);
}

static void test_turns_grow(void **state)
{
    struct queue_file a = {0}, b = {0};
    struct ingest_queue q;
    int64_t now = 0, turn = SLICE * INGEST_QUEUE_GROWTH;

    ingest_queue_init(&q, 1);
    ingest_queue_add(&q, &a, "a", "x", LARGE);
    begin_all(&q, now);
    ingest_queue_add(&q, &b, "b", "x", LARGE);
    for (int i = 0; i < 8; i++) {
        struct queue_file *running = a.running ? &a : &b;
        assert_null(ingest_queue_yield(&q, now + turn - 1));
        assert_int_equal(ingest_queue_due(&q, now + turn - 1), now + turn);
        now += turn;
        assert_ptr_equal(ingest_queue_yield(&q, now), running);
        ingest_queue_put_back(&q, running, now);
        begin_all(&q, now);
        assert_false(running->running);
        if (i % 2 == 1)
            turn *= INGEST_QUEUE_GROWTH;
    }
    /* One that nobody disturbed for long is not begun anew for less. */
    now += 100000 * SLICE;
    struct queue_file *yields = ingest_queue_yield(&q, now);
    ingest_queue_put_back(&q, yields, now);
    assert_true(yields->n_slices > 8);
    ingest_queue_done(&q);
}

static void test_background_comes_last_and_goes_first(void **state)
{
    struct queue_file background = {.background = true}, a = {0}, b = {0};
    struct ingest_queue q;

    ingest_queue_init(&q, 2);
    ingest_queue_add(&q, &a, "a", "x", LARGE);
    ingest_queue_add(&q, &background, NULL, NULL, SMALL);
    begin_all(&q, 0);
    assert_true(background.running);
    ingest_queue_add(&q, &b, "a", "x", LARGE);
    assert_ptr_equal(ingest_queue_yield(&q, 1), &background);
    ingest_queue_put_back(&q, &background, 1);
    begin_all(&q, 1);
    assert_true(b.running && !background.running);
    ingest_queue_done(&q);
}

static void test_who_has_many_waiting_leaves_room(void **state)
{
    enum { MAX_WAITING = 30 };
    struct queue_file f[MAX_WAITING] = {0};
    struct ingest_queue q;
    size_t n = 0;

    ingest_queue_init(&q, 1);
    while (ingest_queue_has_room(&q, "a", "x", MAX_WAITING))
        ingest_queue_add(&q, &f[n++], "a", "x", SMALL);
    assert_int_equal(n, MAX_WAITING / 3);
    assert_true(ingest_queue_has_room(&q, "a", "y", MAX_WAITING));
    while (ingest_queue_has_room(&q, "b", "x", MAX_WAITING))
        ingest_queue_add(&q, &f[n++], "b", "x", SMALL);
    assert_true(n > MAX_WAITING / 2 && n < MAX_WAITING);
    assert_true(ingest_queue_has_room(&q, "c", "x", MAX_WAITING));
    ingest_queue_done(&q);
}

/* -- Random files ------------------------------------------------------------------------------------- */

enum { FILES = 300, HEAVY_USERS = 3, LIGHT_USERS = 60, SOURCES = 3, DAYS = 200 };

struct arrival {
    struct queue_file place;
    char user[8], source[8];
    int64_t size, at, needs; /* of reading */
    int64_t waits_at_most;   /* INT64_MAX: nothing is promised of it */
    bool arrived, done, begun;
};

struct day {
    struct ingest_queue queue;
    struct arrival files[FILES];
    uint64_t seed;
    int64_t heaviness; /* files of heavy users, of 64 */
    int64_t now;
    size_t n_done, n_promised; /* of files: some of them waited */
};

static uint64_t draw_bits(struct day *d)
{
    d->seed = d->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return d->seed >> 33;
}

static int64_t draw(struct day *d, int64_t below)
{
    return (int64_t)((draw_bits(d) << 31 | draw_bits(d)) % (uint64_t)below);
}

static void plan(struct day *d)
{
    static const int64_t light[] = {NS_PER_S / 100, NS_PER_S, 3 * NS_PER_S};
    static const int64_t heavy[] = {4 * NS_PER_S, 20 * NS_PER_S, 400 * NS_PER_S};

    for (size_t i = 0; i < FILES; i++) {
        struct arrival *a = &d->files[i];
        bool is_light = draw(d, 64) >= d->heaviness;
        snprintf(a->user, sizeof(a->user), "%c%d", is_light ? 'l' : 'h',
                 (int)draw(d, is_light ? LIGHT_USERS : HEAVY_USERS));
        snprintf(a->source, sizeof(a->source), "s%d", (int)draw(d, SOURCES));
        a->size = is_light || draw(d, 2) ? SMALL : LARGE;
        a->needs = 1 + draw(d, (is_light ? light : heavy)[draw(d, 3)]);
        a->at = draw(d, 600 * NS_PER_S);
    }
}

/* A slice of the file that is read now, and one of each other user with a short file that waits. */
static int64_t promised(const struct day *d, const struct arrival *a)
{
    const struct queue_share *s, *user = a->place.user;
    unsigned n_others = 0;

    if (user->n_files > 1 || a->size > INGEST_QUEUE_SHORT_BYTES)
        return INT64_MAX;
    TAILQ_FOREACH(s, &d->queue.shares, next)
        n_others += !s->user && s != user && s->n_waiting_of[QUEUE_SHORT] > 0;
    return (1 + n_others) * SLICE;
}

static void arrive(struct day *d)
{
    for (size_t i = 0; i < FILES; i++) {
        struct arrival *a = &d->files[i];
        if (a->arrived || a->at > d->now)
            continue;
        a->arrived = true;
        ingest_queue_add(&d->queue, &a->place, a->user, a->source, a->size);
        a->waits_at_most = promised(d, a);
    }
}

static void end_finished(struct day *d)
{
    for (size_t i = 0; i < FILES; i++) {
        struct arrival *a = &d->files[i];
        if (!a->place.running || d->now - a->place.began_ns < a->needs)
            continue;
        ingest_queue_remove(&d->queue, &a->place);
        a->done = true;
        d->n_done++;
    }
}

static void check_waits(struct day *d)
{
    for (size_t i = 0; i < FILES; i++) {
        struct arrival *a = &d->files[i];
        if (!a->arrived || a->done || a->begun)
            continue;
        a->begun = a->place.running;
        d->n_promised += a->begun && a->waits_at_most != INT64_MAX && d->now > a->at;
        /* What comes after it from the same user is that user's own affair. */
        if (!a->begun && a->place.user->n_files > 1)
            a->waits_at_most = INT64_MAX;
        if (a->waits_at_most != INT64_MAX)
            assert_in_range(d->now - a->at, 0, a->waits_at_most);
    }
}

static void take_turns(struct day *d)
{
    struct queue_file *f;

    do {
        begin_all(&d->queue, d->now);
        if ((f = ingest_queue_yield(&d->queue, d->now)))
            ingest_queue_put_back(&d->queue, f, d->now);
    } while (f);
    assert_true(d->queue.n_running <= MAX(d->queue.slots, 2));
    assert_true(d->queue.n_waiting == 0 || d->queue.n_running >= d->queue.slots);
}

static int64_t next_event(const struct day *d)
{
    int64_t next = ingest_queue_due(&d->queue, d->now);

    for (size_t i = 0; i < FILES; i++) {
        const struct arrival *a = &d->files[i];
        if (!a->arrived)
            next = MIN(next, a->at);
        else if (a->place.running)
            next = MIN(next, a->place.began_ns + a->needs);
    }
    return next;
}

static void test_random_days(void **state)
{
    size_t n_promised = 0;

    for (int n = 0; n < DAYS; n++) {
        struct day *d = xcalloc(1, sizeof(*d));
        d->seed = (uint64_t)n + 1;
        d->heaviness = INT64_C(1) << n / 4 % 6;
        ingest_queue_init(&d->queue, 1 + (unsigned)n % 4);
        plan(d);
        while (d->n_done < FILES) {
            int64_t next = next_event(d);
            assert_true(next < INT64_MAX && next > d->now);
            d->now = next;
            end_finished(d);
            arrive(d);
            take_turns(d);
            check_waits(d);
        }
        assert_true(TAILQ_EMPTY(&d->queue.shares));
        assert_int_equal(d->queue.n_waiting + d->queue.n_running, 0);
        n_promised += d->n_promised;
        free(d);
    }
    print_message("%zu files waited, each within its bound\n", n_promised);
    assert_true(n_promised > DAYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order_of_arrival),
        cmocka_unit_test(test_users_take_turns_and_so_do_their_sources),
        cmocka_unit_test(test_coming_anew_is_no_advantage),
        cmocka_unit_test(test_a_small_file_takes_a_slot_of_large_ones),
        cmocka_unit_test(test_a_file_is_short_for_one_slice),
        cmocka_unit_test(test_files_of_one_source_do_not_displace_one_another),
        cmocka_unit_test(test_with_one_slot_a_small_file_gets_one_more),
        cmocka_unit_test(test_a_large_file_keeps_a_slot_of_small_ones),
        cmocka_unit_test(test_turns_grow),
        cmocka_unit_test(test_background_comes_last_and_goes_first),
        cmocka_unit_test(test_who_has_many_waiting_leaves_room),
        cmocka_unit_test(test_random_days),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

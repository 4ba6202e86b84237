/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polls, answers, and texts that wait, over real sockets: this process is the daemon and, with a socket of its own, a
 * process that polls; others are its children.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/kineto/internal.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/patience.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define WAIT_NS   (10 * NS_PER_S)
#define QUIET_NS  (150 * NS_PER_MS)
#define TRIES_MAX 50
#define N_THREADS 8

struct daemon_side {
    struct event_base *base;
    struct offload *offload;
    struct kineto_settings settings;
    struct kineto *kineto;
    char dir[32];
};

/* Threads that look at a process now, and the most at once. */
static atomic_int n_looking, n_looking_max;

static char *fake_version(pid_t pid)
{
    int n = ++n_looking;

    if (n > n_looking_max)
        n_looking_max = n;
    poll(NULL, 0, 20);
    n_looking--;
    return xstrdup("2.10.0");
}

static int daemon_begin(void **state)
{
    struct daemon_side *d = xcalloc(1, sizeof(*d));

    strcpy(d->dir, "/tmp/profd-kineto-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    d->base = event_base_new();
    assert_int_equal(offload_new(d->base, N_THREADS, &d->offload), 0);
    d->settings = (struct kineto_settings){.listen = d->dir, .poll_ns = 5 * NS_PER_S};
    assert_int_equal(kineto_new(d->base, d->offload, &d->settings, fake_version, &d->kineto), 0);
    assert_null(kineto_listener_at(d->kineto, 0)->why);
    *state = d;
    return 0;
}

static int daemon_end(void **state)
{
    struct daemon_side *d = *state;

    kineto_close(d->kineto);
    assert_int_equal(offload_drain(d->offload, mono_ns() + WAIT_NS), 0);
    kineto_free(d->kineto);
    offload_free(d->offload);
    event_base_free(d->base);
    assert_int_equal(rmdir(d->dir), 0);
    free(d);
    return 0;
}

/* -- The client's side ---------------------------------------------------------------------------------- */

struct client_side {
    int fd;
    struct sockaddr_un address, daemon;
};

static void client_open(struct client_side *c, const char *dir, const char *name)
{
    c->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    c->address = c->daemon = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(c->address.sun_path, sizeof(c->address.sun_path), "%s/%s", dir, name);
    snprintf(c->daemon.sun_path, sizeof(c->daemon.sun_path), "%s/dynolog", dir);
    assert_int_equal(bind(c->fd, (struct sockaddr *)&c->address, sizeof(c->address)), 0);
}

static void client_close(struct client_side *c)
{
    close(c->fd);
    unlink(c->address.sun_path);
}

static void client_send(const struct client_side *c, const void *data, size_t size)
{
    assert_int_equal(sendto(c->fd, data, size, 0, (const struct sockaddr *)&c->daemon, sizeof(c->daemon)),
                     size);
}

static void client_poll(const struct client_side *c, int32_t bits)
{
    unsigned char data[KINETO_METADATA_BYTES + 20] = {0};
    const int32_t payload[] = {bits, 1, 71, 0, 1};

    kineto_answer_head(KINETO_REQUEST, sizeof(payload), data);
    memcpy(data + KINETO_METADATA_BYTES, payload, sizeof(payload));
    client_send(c, data, sizeof(data));
}

/* The text of the answer, NULL where none comes; the caller frees it. */
static char *client_answer(const struct daemon_side *d, const struct client_side *c, int64_t wait_ns)
{
    char data[KINETO_METADATA_BYTES + KINETO_TEXT_MAX];
    const int64_t deadline = mono_ns() + wait_ns;
    struct sockaddr_un from;
    socklen_t size = sizeof(from);
    uint64_t payload;
    ssize_t n;

    while ((n = recvfrom(c->fd, data, sizeof(data), MSG_DONTWAIT, (struct sockaddr *)&from, &size)) < 0) {
        if (mono_ns() > deadline)
            return NULL;
        event_base_loop(d->base, EVLOOP_NONBLOCK);
        poll(NULL, 0, 1);
    }
    /* Kineto ends its process for any other sender. */
    assert_string_equal(from.sun_path, c->daemon.sun_path);
    assert_int_equal(size, offsetof(struct sockaddr_un, sun_path) + strlen(from.sun_path) + 1);
    memcpy(&payload, data, sizeof(payload));
    assert_int_equal(payload, n - KINETO_METADATA_BYTES);
    return xstrndup(data + KINETO_METADATA_BYTES, payload);
}

static void check_answer(const struct daemon_side *d, const struct client_side *c, const char *expected)
{
    _cleanup_(freep) char *text = client_answer(d, c, expected ? patience_ns(WAIT_NS) : QUIET_NS);

    if (expected)
        assert_string_equal(text, expected);
    else
        assert_null(text);
}

/* Polls until profd was in time, on a machine that may be too busy for 40 ms. */
static void check_poll(const struct daemon_side *d, const struct client_side *c, int32_t bits,
                       const char *expected)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        const uint64_t late = kineto_metrics(d->kineto).late;
        struct kineto_entry *e = entry_find(d->kineto, getpid());
        if (e)
            e->skip_answer = false; /* of an answer that was nearly late */
        client_poll(c, bits);
        const int64_t deadline = mono_ns() + patience_ns(WAIT_NS);
        char *text = NULL;
        while (!text && kineto_metrics(d->kineto).late == late && mono_ns() < deadline)
            text = client_answer(d, c, NS_PER_MS);
        if (!text)
            continue;
        assert_string_equal(text, expected);
        free(text);
        return;
    }
    fail_msg("no answer");
}

/* Until the table has it. */
static const struct kineto_process *wait_process(const struct daemon_side *d, pid_t pid)
{
    const int64_t deadline = mono_ns() + patience_ns(WAIT_NS);

    for (;;) {
        for (const struct kineto_process *p = kineto_next(d->kineto, NULL); p; p = kineto_next(d->kineto, p))
            if (p->pid == pid)
                return p;
        assert_true(mono_ns() < deadline);
        event_base_loop(d->base, EVLOOP_NONBLOCK);
        poll(NULL, 0, 1);
    }
}

/* Its first poll that profd saw in time, which is not answered. */
static const struct kineto_process *client_announce(const struct daemon_side *d, const struct client_side *c)
{
    struct kineto_metrics m = kineto_metrics(d->kineto);
    const uint64_t known = m.polls - m.late;

    for (int tries = 0; tries < TRIES_MAX && m.polls - m.late == known; tries++) {
        client_poll(c, 3);
        check_answer(d, c, NULL);
        m = kineto_metrics(d->kineto);
    }
    return wait_process(d, getpid());
}

static const struct kineto_process *client_register(const struct daemon_side *d, struct client_side *c)
{
    client_open(c, d->dir, "dynoconfigclient-a");
    return client_announce(d, c);
}

/* -- What is called ------------------------------------------------------------------------------------- */

struct calls {
    int n_done, result;
    int n_active, n_idle, n_gone;
};

static void on_done(int result, void *arg)
{
    struct calls *c = arg;
    c->n_done++;
    c->result = result;
}

static void on_changed(const struct kineto_process *p, bool is_active, void *arg)
{
    struct calls *c = arg;
    c->n_gone += p == NULL;
    c->n_active += p && is_active;
    c->n_idle += p && !is_active;
}

static void wait_done(const struct daemon_side *d, const struct calls *c)
{
    const int64_t deadline = mono_ns() + patience_ns(WAIT_NS);

    while (c->n_done + c->n_gone == 0 && mono_ns() < deadline) {
        event_base_loop(d->base, EVLOOP_NONBLOCK);
        poll(NULL, 0, 1);
    }
}

/* -- Tests ---------------------------------------------------------------------------------------------- */

static void test_register(void **state)
{
    const struct daemon_side *d = *state;
    struct client_side c;
    struct process_stat stat;
    const struct kineto_process *p = client_register(d, &c);

    assert_int_equal(process_stat_read(getpid(), &stat), 0);
    assert_int_equal(p->start_ticks, stat.started);
    assert_int_equal(p->uid, geteuid());
    assert_int_equal(p->job_id, 71);
    assert_int_equal(p->inner_pid, getpid());
    assert_string_equal(p->transport, d->dir);
    assert_string_equal(p->pytorch_version, "2.10.0");
    assert_string_equal(p->trace_root, "/tmp");
    assert_non_null(strstr(p->command, "test-kineto"));
    assert_false(kineto_is_active(p));
    assert_ptr_equal(kineto_find(d->kineto, p->pid, p->start_ticks), p);
    assert_null(kineto_find(d->kineto, p->pid, p->start_ticks + 1));
    check_poll(d, &c, 3, "");
    assert_int_equal(kineto_metrics(d->kineto).processes, 1);
    client_close(&c);
}

/* A client with an unread answer would take it for the next, and so on: the first poll of a name reads it. */
static void test_shifted(void **state)
{
    const struct daemon_side *d = *state;
    struct kineto_config_slot *slot;
    struct calls calls = {0};
    struct client_side c;
    unsigned char old[KINETO_METADATA_BYTES + 3];

    client_open(&c, d->dir, "dynoconfigclient-a");
    kineto_answer_head(KINETO_REQUEST, 3, old);
    memcpy(old + KINETO_METADATA_BYTES, "old", 3);
    assert_int_equal(sendto(d->kineto->sockets[0].socket.fd, old, sizeof(old), 0,
                            (struct sockaddr *)&c.address, sizeof(c.address)),
                     sizeof(old));
    while (d->kineto->n_entries == 0) { /* too late, so far */
        client_poll(&c, 3);
        for (uint64_t n = kineto_metrics(d->kineto).polls; kineto_metrics(d->kineto).polls == n;)
            event_base_loop(d->base, EVLOOP_ONCE);
    }
    check_answer(d, &c, "old");
    check_answer(d, &c, NULL);
    const struct kineto_process *p = wait_process(d, getpid());
    assert_int_equal(kineto_schedule(d->kineto, p->pid, p->start_ticks, "A=1\n", on_done, &calls, &slot), 0);
    check_poll(d, &c, 3, "A=1\n");
    check_poll(d, &c, 3, "");
    client_close(&c);
}

/* The same where profd was nearly too late: the text waits for the poll after the next. */
static void test_doubtful_answer(void **state)
{
    const struct daemon_side *d = *state;
    struct kineto_config_slot *slot;
    struct calls calls = {0};
    struct client_side c;
    const struct kineto_process *p = client_register(d, &c);

    entry_find(d->kineto, p->pid)->skip_answer = true;
    assert_int_equal(kineto_schedule(d->kineto, p->pid, p->start_ticks, "A=1\n", on_done, &calls, &slot), 0);
    client_poll(&c, 3);
    check_answer(d, &c, NULL);
    assert_int_equal(calls.n_done, 0);
    check_poll(d, &c, 3, "A=1\n");
    assert_int_equal(calls.n_done, 1);
    client_close(&c);
}

/* Nothing older than 40 ms is answered. */
static void test_late(void **state)
{
    const struct daemon_side *d = *state;
    struct kineto_config_slot *slot;
    struct calls calls = {0};
    struct client_side c;
    const struct kineto_process *p = client_register(d, &c);

    const uint64_t late = kineto_metrics(d->kineto).late;
    assert_int_equal(kineto_schedule(d->kineto, p->pid, p->start_ticks, "A=1\n", on_done, &calls, &slot), 0);
    client_poll(&c, 3);
    poll(NULL, 0, 60);
    check_answer(d, &c, NULL);
    assert_int_equal(kineto_metrics(d->kineto).late, late + 1);
    assert_int_equal(calls.n_done, 0);
    check_poll(d, &c, 3, "A=1\n");
    client_close(&c);
}

static void test_schedule(void **state)
{
    const struct daemon_side *d = *state;
    struct kineto_config_slot *slot, *second;
    struct calls calls = {0}, watched = {0};
    struct client_side c;
    const struct kineto_process *p = client_register(d, &c);
    const pid_t pid = p->pid;
    const uint64_t ticks = p->start_ticks;

    assert_int_equal(kineto_schedule(d->kineto, pid, ticks + 1, "A=1\n", on_done, &calls, &slot), -ESRCH);
    assert_int_equal(kineto_schedule(d->kineto, 1, ticks, "A=1\n", on_done, &calls, &slot), -ESRCH);
    _cleanup_(freep) char *huge = xcalloc(KINETO_TEXT_MAX + 2, 1);
    memset(huge, 'a', KINETO_TEXT_MAX + 1);
    assert_int_equal(kineto_schedule(d->kineto, pid, ticks, huge, on_done, &calls, &slot), -EMSGSIZE);
    assert_int_equal(kineto_schedule(d->kineto, pid, ticks, "A=1\n", on_done, &calls, &slot), 0);
    assert_int_equal(kineto_schedule(d->kineto, pid, ticks, "B=1\n", on_done, &calls, &second), -EBUSY);
    struct kineto_watch *w = kineto_watch(d->kineto, pid, ticks, on_changed, &watched);
    check_poll(d, &c, 2, "A=1\n");
    assert_true(calls.n_done == 1 && calls.result == 0);
    /* It records, writes, and is done; meanwhile it gets nothing. */
    check_poll(d, &c, 1, "");
    assert_true(kineto_is_active(kineto_find(d->kineto, pid, ticks)));
    assert_int_equal(kineto_schedule(d->kineto, pid, ticks, "B=1\n", on_done, &calls, &slot), -EBUSY);
    check_poll(d, &c, 0, "");
    check_poll(d, &c, 2, "");
    assert_true(watched.n_active == 1 && watched.n_idle == 1 && watched.n_gone == 0);
    /* One that became active before it fetched its text. */
    assert_int_equal(kineto_schedule(d->kineto, pid, ticks, "C=1\n", on_done, &calls, &slot), 0);
    check_poll(d, &c, 0, "");
    assert_true(calls.n_done == 2 && calls.result == -EBUSY);
    check_poll(d, &c, 2, "");
    assert_int_equal(kineto_schedule(d->kineto, pid, ticks, "D=1\n", on_done, &calls, &slot), 0);
    kineto_cancel(slot);
    assert_true(calls.n_done == 3 && calls.result == -ECANCELED);
    check_poll(d, &c, 2, "");
    kineto_unwatch(w);
    client_close(&c);
}

static void test_not_fetched(void **state)
{
    struct daemon_side *d = *state;
    struct kineto_config_slot *slot;
    struct calls calls = {0};
    struct client_side c;
    const struct kineto_process *p = client_register(d, &c);

    d->settings.poll_ns = 10 * NS_PER_MS;
    assert_int_equal(kineto_schedule(d->kineto, p->pid, p->start_ticks, "A=1\n", on_done, &calls, &slot), 0);
    wait_done(d, &calls);
    assert_true(calls.n_done == 1 && calls.result == -ETIMEDOUT);
    client_close(&c);
}

static void test_forgotten(void **state)
{
    struct daemon_side *d = *state;
    struct client_side c;
    struct calls watched = {0};
    const struct kineto_process *p = client_register(d, &c);
    struct kineto_watch *w = kineto_watch(d->kineto, p->pid, p->start_ticks, on_changed, &watched);

    entries_forget(d->kineto);
    assert_non_null(kineto_next(d->kineto, NULL));
    d->settings.poll_ns = 1;
    entries_forget(d->kineto);
    assert_null(kineto_next(d->kineto, NULL));
    assert_int_equal(watched.n_gone, 1);
    kineto_unwatch(w);
    client_close(&c);
}

/* A poll over a socket that another process opened: the credentials decide, and its end is seen at once. */
static void test_child(void **state)
{
    const struct daemon_side *d = *state;
    struct kineto_config_slot *slot;
    struct calls calls = {0}, watched = {0};
    struct client_side c;

    client_open(&c, d->dir, "dynoconfigclient-child");
    pid_t child = fork();
    if (child == 0) {
        for (;; poll(NULL, 0, 100))
            client_poll(&c, 3);
    }
    wait_process(d, child);
    kill(child, SIGSTOP);
    for (char *text; (text = client_answer(d, &c, QUIET_NS));)
        free(text);
    const struct kineto_process *p = wait_process(d, child);
    assert_int_equal(kineto_schedule(d->kineto, child, p->start_ticks, "A=1\n", on_done, &calls, &slot), 0);
    struct kineto_watch *w = kineto_watch(d->kineto, child, p->start_ticks, on_changed, &watched);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    wait_done(d, &calls);
    wait_done(d, &watched);
    assert_true(calls.n_done == 1 && calls.result == -ESRCH);
    assert_int_equal(watched.n_gone, 1);
    assert_null(kineto_next(d->kineto, NULL));
    kineto_unwatch(w);
    client_close(&c);
}

static void test_context(void **state)
{
    const struct daemon_side *d = *state;
    unsigned char data[KINETO_METADATA_BYTES + 16] = {0};
    const int32_t payload[] = {3, 1, 71, 0};
    struct client_side c;

    client_open(&c, d->dir, "dynoconfigclient-a");
    kineto_answer_head(KINETO_CONTEXT, sizeof(payload), data);
    memcpy(data + KINETO_METADATA_BYTES, payload, sizeof(payload));
    char *text = NULL;
    for (int tries = 0; tries < TRIES_MAX && !text; tries++) {
        client_send(&c, data, sizeof(data));
        text = client_answer(d, &c, QUIET_NS);
    }
    assert_string_equal(text, "\1");
    free(text);
    assert_null(kineto_next(d->kineto, NULL)); /* it has not polled */
    client_close(&c);
}

/* None of them registers anything, and none is answered. */
static void test_refused(void **state)
{
    const struct daemon_side *d = *state;
    unsigned char large[KINETO_MESSAGE_MAX + 100] = {0};
    struct client_side outside, c;
    char elsewhere[] = "/tmp/profd-kineto-XXXXXX";

    assert_non_null(mkdtemp(elsewhere));
    client_open(&c, d->dir, "dynoconfigclient-a");
    client_send(&c, "req", 3);
    kineto_answer_head(KINETO_REQUEST, sizeof(large) - KINETO_METADATA_BYTES, large);
    client_send(&c, large, sizeof(large));
    check_answer(d, &c, NULL);
    client_open(&outside, elsewhere, "dynoconfigclient-b");
    outside.daemon = c.daemon;
    client_poll(&outside, 3);
    check_answer(d, &c, NULL);
    int unbound = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct client_side nameless = {.fd = unbound, .daemon = c.daemon};
    client_poll(&nameless, 3);
    check_answer(d, &c, NULL);
    assert_int_equal(kineto_metrics(d->kineto).refused, 4);
    assert_int_equal(d->kineto->n_entries, 0);
    close(unbound);
    client_close(&outside);
    client_close(&c);
    rmdir(elsewhere);
}

/* The limit of one user. */
static void test_crowd(void **state)
{
    const struct daemon_side *d = *state;
    struct kineto *k = d->kineto;
    struct client_side c;

    for (pid_t i = 0; i < KINETO_PROCESSES_PER_UID_MAX; i++) {
        struct kineto_entry *e = xcalloc(1, sizeof(*e));
        *e = (struct kineto_entry){.kineto = k, .index = k->n_entries, .pidfd = -1, .context_gpu = -1};
        e->process =
            (struct kineto_process){.pid = 100000000 + i, .uid = geteuid(), .last_poll_mono_ns = mono_ns()};
        VEC_GROW(k->entries, k->n_entries, k->cap_entries);
        k->entries[k->n_entries++] = e;
    }
    client_open(&c, d->dir, "dynoconfigclient-a");
    client_poll(&c, 3);
    check_answer(d, &c, NULL);
    assert_int_equal(kineto_metrics(k).refused, 1);
    assert_int_equal(k->n_entries, KINETO_PROCESSES_PER_UID_MAX);
    entry_end(k->entries[0], -ESRCH);
    client_announce(d, &c);
    client_close(&c);
}

/* What a user's processes have mapped may be on a server that never answers: that holds a few threads, not all. */
static void test_few_threads_of_a_user(void **state)
{
    const struct daemon_side *d = *state;
    pid_t children[2 * N_THREADS];
    struct client_side c;

    client_open(&c, d->dir, "dynoconfigclient-many");
    n_looking_max = 0;
    for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (;; poll(NULL, 0, 50))
                client_poll(&c, 3);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(children); i++)
        wait_process(d, children[i]);
    for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    assert_in_range(n_looking_max, 1, KINETO_QUEUES_PER_UID);
    client_close(&c);
}

static void test_sweep(void **state)
{
    const struct daemon_side *d = *state;
    static const char dead[] = "dynoconfigclient01234567-89ab-4cde-8f01-23456789abcd";
    static const char alive[] = "dynoconfigclient11234567-89ab-4cde-8f01-23456789abcd";
    static const char other[] = "dynoconfigclient-other";
    const struct timespec past[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    struct client_side clients[4];

    client_open(&clients[0], d->dir, dead);
    client_open(&clients[1], d->dir, alive);
    client_open(&clients[2], d->dir, other);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(utimensat(AT_FDCWD, clients[i].address.sun_path, past, 0), 0);
    client_open(&clients[3], d->dir, "dynoconfigclient21234567-89ab-4cde-8f01-23456789abcd"); /* new */
    close(clients[0].fd);
    close(clients[2].fd);
    close(clients[3].fd);
    assert_int_equal(kineto_socket_sweep(d->dir), 1);
    assert_int_equal(access(clients[0].address.sun_path, F_OK), -1);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(access(clients[i].address.sun_path, F_OK), 0);
    close(clients[1].fd);
    for (size_t i = 1; i < 4; i++)
        unlink(clients[i].address.sun_path);
}

/* A daemon that starts later, as dynolog does, takes the name: profd notices, says who, and does not take it back. */
static void test_replaced(void **state)
{
    struct daemon_side *d = *state;
    const struct kineto_listener *l = kineto_listener_at(d->kineto, 0);
    struct client_side other;

    _cleanup_(freep) char *path = xasprintf("%s/dynolog", d->dir);
    assert_int_equal(unlink(path), 0);
    client_open(&other, d->dir, "dynolog");
    event_active(d->kineto->retry, EV_TIMEOUT, 0);
    for (int64_t deadline = mono_ns() + patience_ns(WAIT_NS); !l->why && mono_ns() < deadline;
         poll(NULL, 0, 1))
        event_base_loop(d->base, EVLOOP_NONBLOCK);
    assert_non_null(strstr(l->why, "is in use by"));
    assert_int_equal(access(path, F_OK), 0);
    client_close(&other);
    event_active(d->kineto->retry, EV_TIMEOUT, 0);
    for (int64_t deadline = mono_ns() + patience_ns(WAIT_NS); l->why && mono_ns() < deadline;
         poll(NULL, 0, 1))
        event_base_loop(d->base, EVLOOP_NONBLOCK);
    assert_null(l->why);
    assert_int_equal(access(path, F_OK), 0);
}

/* Who listens there already is named, and stays. */
static void test_in_use(void **state)
{
    const struct daemon_side *d = *state;
    struct kineto_socket s = KINETO_SOCKET_CLOSED;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *who = xasprintf("(pid %d,", (int)getpid());

    assert_int_equal(kineto_socket_open(d->dir, &s, &p), -EADDRINUSE);
    assert_non_null(strstr(p.what, "is in use by"));
    assert_non_null(strstr(p.what, who));
    assert_non_null(strstr(p.remedy, "KINETO_IPC_SOCKET_DIR"));
    assert_int_equal(s.fd, -1);
}

static void check_not_opened(const char *dir, int expected, const char *part)
{
    struct kineto_socket s = KINETO_SOCKET_CLOSED;
    _cleanup_(problem_done) struct problem p = {0};

    assert_int_equal(kineto_socket_open(dir, &s, &p), expected);
    assert_non_null(strstr(p.what, part));
}

static void test_directories(void **state)
{
    const struct daemon_side *d = *state;
    _cleanup_(freep) char *link = xasprintf("%s/link", d->dir), *below = xasprintf("%s/link/k", d->dir);
    _cleanup_(freep) char *real = xasprintf("%s/real", d->dir), *file = xasprintf("%s/real/dynolog", d->dir);
    _cleanup_(freep) char *far = xasprintf("%s/real/a/b", d->dir), *k = xasprintf("%s/real/k", d->dir);

    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, link), 0);
    check_not_opened(link, -ELOOP, "symbolic link");
    check_not_opened(below, -ELOOP, "symbolic link");
    rmdir(k);
    check_not_opened(far, -ENOENT, "cannot create");
    assert_int_equal(chmod(real, 0777), 0);
    check_not_opened(real, -EPERM, "sticky bit");
    /* Who may write to the directory above can put another one in its place. */
    assert_int_equal(mkdir(k, 0700), 0);
    check_not_opened(k, -EPERM, "real is writable by others");
    rmdir(k);
    assert_int_equal(chmod(real, 0700), 0);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    check_not_opened(real, -ENOTSOCK, "cannot listen");
    assert_int_equal(access(file, F_OK), 0);
    unlink(file);
    unlink(link);
    rmdir(real);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, daemon_begin, daemon_end)
    const struct CMUnitTest tests[] = {
        TEST(test_register),  TEST(test_shifted),  TEST(test_doubtful_answer),
        TEST(test_late),      TEST(test_schedule), TEST(test_not_fetched),
        TEST(test_forgotten), TEST(test_child),    TEST(test_context),
        TEST(test_refused),   TEST(test_crowd),    TEST(test_few_threads_of_a_user),
        TEST(test_sweep),     TEST(test_in_use),   TEST(test_directories),
        TEST(test_replaced),
    };
    unsetenv("KINETO_ONDEMAND_TRACE_DIR");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

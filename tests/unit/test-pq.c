/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to PostgreSQL against servers that are none: they refuse, fall silent, end or send what they should not
 * (PostgreSQL 15 manual, chapter 55). */
#include "cmocka-all.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/names.h"
#include "daemon/mirror/pq.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_NS (200 * NS_PER_MS)

/* Messages of the server: type, length with itself, body. */
#define AUTH_OK "R\0\0\0\x08\0\0\0\0"
#define READY   "Z\0\0\0\x05I"
#define PARSED  "1\0\0\0\x04"
#define BOUND   "2\0\0\0\x04"
/* One column "a" of type int8, one row "42", SELECT. */
#define DESCRIBED                                                                                            \
    "T\0\0\0\x1a\0\x01"                                                                                      \
    "a\0"                                                                                                    \
    "\0\0\0\0"                                                                                               \
    "\0\0"                                                                                                   \
    "\0\0\0\x14"                                                                                             \
    "\0\x08"                                                                                                 \
    "\xff\xff\xff\xff"                                                                                       \
    "\0\0"
#define ROW                                                                                                  \
    "D\0\0\0\x0c\0\x01"                                                                                      \
    "\0\0\0\x02"                                                                                             \
    "42"
#define COMPLETE                                                                                             \
    "C\0\0\0\x0d"                                                                                            \
    "SELECT 1\0"
#define ROWS_END COMPLETE READY
#define TOO_MANY                                                                                             \
    "E\0\0\0\x19"                                                                                            \
    "SFATAL\0"                                                                                               \
    "C53300\0"                                                                                               \
    "Mfull\0"                                                                                                \
    "\0"
#define WRONG                                                                                                \
    "E\0\0\0\x18"                                                                                            \
    "SERROR\0"                                                                                               \
    "C22P02\0"                                                                                               \
    "Mbad\0"                                                                                                 \
    "\0"
#define READ_WRITE                                                                                           \
    "S\0\0\0\x17in_hot_standby\0off\0"                                                                       \
    "S\0\0\0\x26"                                                                                            \
    "default_transaction_read_only\0off\0"                                                                   \
    "S\0\0\0\x18server_version\0"                                                                            \
    "15.1\0"

struct script {
    const char *greeting; /* after the start packet; NULL: silence */
    size_t greeting_size;
    const char *answer; /* after the first message of a call; NULL: silence */
    size_t answer_size;
    bool ends; /* then */
};
#define SAYS(text)    .greeting = (text), .greeting_size = sizeof(text) - 1
#define ANSWERS(text) .answer = (text), .answer_size = sizeof(text) - 1

struct bench {
    struct event_base *base;
    struct pq_connector *connector;
    struct name_resolver *names;
    const struct script *script;
    int listener, client;
    struct event *accepted, *readable;
    unsigned n_read;
    int port;

    struct pq *pq;
    bool calls;
    unsigned n_connected, n_results, n_failed;
    char *value, *error;
    char state[PQ_STATE_SIZE];
};

static void send_text(struct bench *b, const char *text, size_t size)
{
    if (text)
        assert_int_equal(send(b->client, text, size, MSG_NOSIGNAL), size);
    if (b->script->ends && (b->n_read > 1 || !b->script->answer)) {
        event_del(b->readable);
        shutdown(b->client, SHUT_RDWR);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct bench *b = arg;
    char buffer[4096];

    if (read(fd, buffer, sizeof(buffer)) <= 0) {
        event_del(b->readable);
        return;
    }
    b->n_read++;
    if (b->n_read == 1)
        send_text(b, b->script->greeting, b->script->greeting_size);
    else if (b->n_read == 2)
        send_text(b, b->script->answer, b->script->answer_size);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct bench *b = arg;

    b->client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    b->readable = event_new(b->base, b->client, EV_READ | EV_PERSIST, on_readable, b);
    event_add(b->readable, NULL);
}

static void on_connected(void *arg)
{
    struct bench *b = arg;

    b->n_connected++;
    if (b->calls)
        pq_call(b->pq, "select 1", 0, NULL, TIMEOUT_NS);
    else
        event_base_loopbreak(b->base);
}

static void on_result(const char *value, const struct pq_failure *error, void *arg)
{
    struct bench *b = arg;

    b->n_results++;
    b->value = value ? xstrdup(value) : NULL;
    b->error = error ? xstrdup(error->text) : NULL;
    if (error)
        memcpy(b->state, error->state, sizeof(b->state));
    event_base_loopbreak(b->base);
}

/* Frees it here, as an owner may. */
static void on_failed(const struct pq_failure *f, void *arg)
{
    struct bench *b = arg;

    b->n_failed++;
    b->error = xstrdup(f->text);
    b->pq = pq_free(b->pq);
    event_base_loopbreak(b->base);
}

static const struct pq_ops ops = {on_connected, on_result, on_failed};

static void bench_run(struct bench *b, const struct script *script, const char *hosts)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);

    b->script = script;
    b->client = -1;
    b->base = event_base_new();
    b->connector = pq_connector_new(b->base);
    assert_int_equal(names_new(b->base, &b->names), 0);
    b->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(b->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(b->listener, 4), 0);
    getsockname(b->listener, (struct sockaddr *)&at, &size);
    b->port = ntohs(at.sin_port);
    b->accepted = event_new(b->base, b->listener, EV_READ | EV_PERSIST, on_accept, b);
    event_add(b->accepted, NULL);
    char *conninfo = xasprintf("host=%s port=%d user=u dbname=d sslmode=disable password=x", hosts, b->port);
    assert_int_equal(pq_connect(b->connector, b->names, conninfo, NULL, TIMEOUT_NS, &ops, b, &b->pq), 0);
    free(conninfo);
    event_base_dispatch(b->base);
}

static void bench_done(struct bench *b)
{
    pq_free(b->pq);
    assert_int_equal(pq_connector_drain(b->connector, DEADLINE_NEVER), 0);
    pq_connector_free(b->connector);
    names_free(b->names);
    if (b->readable)
        event_free(b->readable);
    event_free(b->accepted);
    if (b->client >= 0)
        close(b->client);
    close(b->listener);
    event_base_free(b->base);
    free(b->value);
    free(b->error);
}

static void a_call_gives_its_value(void **state)
{
    static const struct script s = {SAYS(AUTH_OK READ_WRITE READY),
                                    ANSWERS(PARSED BOUND DESCRIBED ROW ROWS_END)};
    struct bench b = {.calls = true};

    bench_run(&b, &s, "127.0.0.1");
    assert_int_equal(b.n_connected, 1);
    assert_int_equal(b.n_results, 1);
    assert_string_equal(b.value, "42");
    bench_done(&b);
}

static void an_error_of_a_statement_has_its_state(void **state)
{
    static const struct script s = {SAYS(AUTH_OK READ_WRITE READY), ANSWERS(WRONG READY)};
    struct bench b = {.calls = true};

    bench_run(&b, &s, "127.0.0.1");
    assert_int_equal(b.n_results, 1);
    assert_null(b.value);
    assert_string_equal(b.state, "22P02");
    assert_non_null(strstr(b.error, "bad"));
    bench_done(&b);
}

static void servers_that_are_none(void **state)
{
    static const struct {
        struct script script;
        bool calls;
        const char *error;
    } cases[] = {
        {{SAYS(TOO_MANY), .ends = true}, false, "full"},
        {{SAYS("HTTP/1.1 400 Bad Request\r\n\r\n"), .ends = true}, false, ""},
        {{.ends = true}, false, ""},
        {{.greeting = NULL}, false, "no answer"},
        {{SAYS(AUTH_OK READ_WRITE READY), .answer = NULL}, true, "no answer"},
        {{SAYS(AUTH_OK READ_WRITE READY), ANSWERS(PARSED BOUND), .ends = true}, true, ""},
        {{SAYS(AUTH_OK READ_WRITE READY), ANSWERS("\xff\xff\xff\xff\xff\xff\xff\xff\xff")}, true, ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct bench b = {.calls = cases[i].calls};
        bench_run(&b, &cases[i].script, "127.0.0.1");
        assert_int_equal(b.n_results, 0);
        assert_int_equal(b.n_failed, 1);
        if (!strstr(b.error, cases[i].error))
            fail_msg("%zu: %s", i, b.error);
        bench_done(&b);
    }
}

static void an_answer_without_a_row_is_an_error(void **state)
{
    static const struct script s = {SAYS(AUTH_OK READ_WRITE READY), ANSWERS(PARSED BOUND DESCRIBED ROWS_END)};
    struct bench b = {.calls = true};

    bench_run(&b, &s, "127.0.0.1");
    assert_int_equal(b.n_results, 1);
    assert_null(b.value);
    assert_non_null(b.error);
    bench_done(&b);
}

/* The first refuses, the second is a metadata address, the third answers. */
static void hosts_are_tried_in_order(void **state)
{
    static const struct script s = {SAYS(AUTH_OK READ_WRITE READY)};
    struct bench b = {0};

    bench_run(&b, &s, "127.0.0.2,169.254.169.254,127.0.0.1");
    assert_int_equal(b.n_connected, 1);
    assert_int_equal(b.n_failed, 0);
    bench_done(&b);
}

static void metadata_addresses_are_refused(void **state)
{
    static const struct script s = {SAYS(AUTH_OK READ_WRITE READY)};
    struct bench b = {0};

    bench_run(&b, &s, "169.254.169.254");
    assert_int_equal(b.n_failed, 1);
    assert_non_null(strstr(b.error, "169.254.169.254 "));
    bench_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_gives_its_value),
        cmocka_unit_test(an_error_of_a_statement_has_its_state),
        cmocka_unit_test(an_answer_without_a_row_is_an_error),
        cmocka_unit_test(servers_that_are_none),
        cmocka_unit_test(hosts_are_tried_in_order),
        cmocka_unit_test(metadata_addresses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

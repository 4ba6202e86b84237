/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/curl_loop.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <event2/event_struct.h>
#include <sys/queue.h>

/* One socket of libcurl's that it wants watched. */
struct watch {
    LIST_ENTRY(watch) link;
    struct event event;
};
LIST_HEAD(watch_list, watch);

struct curl_loop {
    struct event_base *base;
    const struct curl_loop_ops *ops;
    void *arg;
    CURLM *multi;
    struct event timer; /* libcurl's own timeout */
    struct watch_list watches;
};

static void curl_loop_drive(struct curl_loop *l, curl_socket_t fd, int what)
{
    int running, left;
    CURLMsg *message;
    CURLMcode code = curl_multi_socket_action(l->multi, fd, what, &running);

    if (code != CURLM_OK && l->ops->broken) {
        l->ops->broken(l->arg, code);
        return;
    }
    while ((message = curl_multi_info_read(l->multi, &left))) {
        void *private;
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        l->ops->ended(private, result);
    }
}

static void curl_loop_on_timer(evutil_socket_t fd, short what, void *arg)
{
    curl_loop_drive(arg, CURL_SOCKET_TIMEOUT, 0);
}

static void curl_loop_on_socket(evutil_socket_t fd, short what, void *arg)
{
    curl_loop_drive(arg, fd,
                    (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0));
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct curl_loop *l = arg;

    if (timeout_ms < 0) {
        event_del(&l->timer);
    } else if (timeout_ms == 0) {
        event_active(&l->timer, EV_TIMEOUT, 0);
    } else {
        struct timeval tv = timeval_of(timeout_ms * NS_PER_MS);
        event_add(&l->timer, &tv);
    }
    return 0;
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct curl_loop *l = arg;
    struct watch *w = socket_arg;

    if (w)
        event_del(&w->event);
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            LIST_REMOVE(w, link);
            free(w);
        }
        return 0;
    }
    if (!w) {
        w = xcalloc(1, sizeof(*w));
        LIST_INSERT_HEAD(&l->watches, w, link);
        curl_multi_assign(l->multi, fd, w);
    }
    short events = (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0);
    event_assign(&w->event, l->base, fd, events | EV_PERSIST, curl_loop_on_socket, l);
    event_add(&w->event, NULL);
    return 0;
}

int curl_loop_new(struct event_base *base, long connections_max, const struct curl_loop_ops *ops, void *arg,
                  struct curl_loop **ret)
{
    CURLM *multi = curl_multi_init();

    if (!multi)
        return -ENOMEM;
    struct curl_loop *l = xcalloc(1, sizeof(*l));
    *l = (struct curl_loop){.base = base, .ops = ops, .arg = arg, .multi = multi};
    event_assign(&l->timer, base, -1, 0, curl_loop_on_timer, l);
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, l);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, l);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections_max);
    /* A fan-out must not queue: the owner of the transfers limits their number. */
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0L);
    *ret = l;
    return 0;
}

struct curl_loop *curl_loop_free(struct curl_loop *l)
{
    struct watch *w;

    if (!l)
        return NULL;
    curl_multi_cleanup(l->multi);
    while ((w = LIST_FIRST(&l->watches))) {
        event_del(&w->event);
        LIST_REMOVE(w, link);
        free(w);
    }
    event_del(&l->timer);
    free(l);
    return NULL;
}

int curl_loop_add(struct curl_loop *l, CURL *easy)
{
    return curl_multi_add_handle(l->multi, easy) == CURLM_OK ? 0 : -EIO;
}

void curl_loop_remove(struct curl_loop *l, CURL *easy)
{
    curl_multi_remove_handle(l->multi, easy);
}

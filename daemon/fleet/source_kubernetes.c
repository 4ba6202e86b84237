/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubernetes=NS/SERVICE and pods=NS/SELECTOR: requests to the Kubernetes API, and what its refusals mean.
 *
 * In a pod, the API is where the kubelet's variables say, with the CA and the token of the pod's service account;
 * elsewhere kubernetes_url= names it. A token is rotated while profd runs (the kubelet replaces the file after 80 % of
 * its life), so its file is read for each call. One list request is all that profd needs to be allowed.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "base/text.h"
#include "daemon/fleet/kubernetes.h"
#include "daemon/fleet/url.h"
#include <ctype.h>
#include <errno.h>

/* client-go rest/config.go, InClusterConfig() */
#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* Of a page. A slice has up to 100 endpoints of 300 bytes, a pod 20 KiB: a page is below 3 MiB. */
#define SLICES_PER_PAGE 100
#define PODS_PER_PAGE   100

#define LABEL_MAX       63  /* of DNS-1123: a namespace, a Service */
#define SUBDOMAIN_MAX   253 /* a node */
#define SELECTOR_MAX    1024
#define HERE            "here" /* the node of profd's own pod, by the variable that the DaemonSet sets */
#define NODE_VARIABLE   "NODE_NAME"
#define MESSAGE_MAX     400

/* The two resources. */
struct kubernetes_resource {
    const char *group, *path, *name; /* of RBAC and of the URL */
    const char *since;
    int per_page;
};

static const struct kubernetes_resource slices = {"discovery.k8s.io", "/apis/discovery.k8s.io/v1",
                                                  "endpointslices", "Kubernetes 1.21", SLICES_PER_PAGE};
static const struct kubernetes_resource pods = {"", "/api/v1", "pods", "every Kubernetes", PODS_PER_PAGE};

static const struct kubernetes_resource *resource_of(const struct source_config *c)
{
    return streq(c->source->key, "pods") ? &pods : &slices;
}

/* -- Values ------------------------------------------------------------------------------------------- */

/* A label of DNS-1123; with dots a subdomain. */
static bool is_dns_name(const char *s, size_t n, const char *more, size_t max)
{
    if (n == 0 || n > max || !isalnum((unsigned char)s[0]) || !isalnum((unsigned char)s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && !strchr(more, s[i]))
            return false;
    return true;
}

/* What label selectors are made of; the API checks their grammar and answers with what is wrong. */
static bool is_selector(const char *s)
{
    size_t n = strlen(s), blanks = strspn(s, " ");

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("-_./=!,() ", s[i]))
            return false;
    return n > blanks && n <= SELECTOR_MAX;
}

/* The node that is asked for: NULL for all, "" where it is not known. */
static const char *node_of(const struct source_config *c)
{
    const char *here = getenv(NODE_VARIABLE);
    return !streq(c->node, HERE) ? c->node : here ? here : "";
}

static int check_common(const struct source_config *c, const char **reason)
{
    const char *node = node_of(c);

    if (c->kubernetes_url && source_url_check(c->kubernetes_url, reason) < 0)
        return -EINVAL;
    if (node && !node[0]) {
        *reason = " needs the variable " NODE_VARIABLE " for node=" HERE
                  ": the DaemonSet sets it from spec.nodeName";
        return -EINVAL;
    }
    if (node && !is_dns_name(node, strlen(node), "-.", SUBDOMAIN_MAX)) {
        *reason = " needs the name of a node in node=";
        return -EINVAL;
    }
    /* A token of a cluster crosses no network in the clear; "kubectl proxy" listens on loopback. */
    if (c->kubernetes_token_file && c->kubernetes_url && !starts_with(c->kubernetes_url, "https://")) {
        *reason = " sends kubernetes_token_file= only to an https:// URL";
        return -EINVAL;
    }
    return 0;
}

static int check_service(const struct source_config *c, const char **reason)
{
    const char *slash = strchr(c->value, '/');

    if (!slash || !is_dns_name(c->value, (size_t)(slash - c->value), "-", LABEL_MAX) ||
        !is_dns_name(slash + 1, strlen(slash + 1), "-", LABEL_MAX)) {
        *reason = "NAMESPACE/SERVICE, as kubectl get services -A prints them";
        return -EINVAL;
    }
    return check_common(c, reason);
}

static int check_pods(const struct source_config *c, const char **reason)
{
    const char *slash = strchr(c->value, '/');

    if (!slash || !is_dns_name(c->value, (size_t)(slash - c->value), "-", LABEL_MAX) ||
        !is_selector(slash + 1)) {
        *reason =
            "NAMESPACE/SELECTOR such as inference/app=vllm, with a selector as kubectl get pods -l takes it";
        return -EINVAL;
    }
    return check_common(c, reason);
}

/* -- Requests ----------------------------------------------------------------------------------------- */

/* https://HOST:PORT of the API; NULL outside of a pod. The caller frees it. */
static char *api_of_pod(void)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    char text[ADDRESS_TEXT_SIZE];
    struct in6_addr ip;

    if (!host || !port)
        return NULL;
    if (address_parse(host, &ip) == 0) {
        address_format(&ip, text);
        host = text;
    }
    return xasprintf("https://%s:%s", host, port);
}

static int kubernetes_request(const struct source_config *c, const char *next, struct source_request *ret,
                              char why[static SOURCE_WHY_MAX])
{
    const struct kubernetes_resource *resource = resource_of(c);
    const char *slash = strchr(c->value, '/'), *node = node_of(c);
    char *url = c->kubernetes_url ? xstrdup(c->kubernetes_url) : api_of_pod();

    if (!url) {
        snprintf(why, SOURCE_WHY_MAX,
                 "profd does not run in a pod (KUBERNETES_SERVICE_HOST is not set), and "
                 "kubernetes_url= is not set");
        return -EINVAL;
    }
    while (ends_with(url, "/"))
        url[strlen(url) - 1] = '\0';
    append_str(&url, "%s/namespaces/%.*s/%s?limit=%d&labelSelector=", resource->path, (int)(slash - c->value),
               c->value, resource->name, resource->per_page);
    if (resource == &slices)
        append_url_escaped(&url, "kubernetes.io/service-name=");
    append_url_escaped(&url, slash + 1);
    if (resource == &pods && node) {
        append_str(&url, "&fieldSelector=");
        append_url_escaped(&url, "spec.nodeName=");
        append_url_escaped(&url, node);
    }
    if (next) {
        append_str(&url, "&continue=");
        append_url_escaped(&url, next);
    }
    *ret = (struct source_request){
        .url = url,
        .token_file = c->kubernetes_token_file ? c->kubernetes_token_file
                      : c->kubernetes_url      ? NULL
                                               : ACCOUNT_DIR "/token",
        .ca_file = c->kubernetes_ca_file ? c->kubernetes_ca_file
                   : c->kubernetes_url   ? NULL
                                         : ACCOUNT_DIR "/ca.crt",
        .keys = "kubernetes_",
        .ca_alone = true,
    };
    return 0;
}

static int kubernetes_parse(const struct source_config *c, const char *data, size_t size, size_t max,
                            struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX])
{
    const struct kubernetes_scope scope = {.port = c->port, .role_label = c->role_label, .node = node_of(c)};

    return resource_of(c) == &pods ? kubernetes_read_pods(&scope, data, size, max, f, ret_next, why)
                                   : kubernetes_read_slices(&scope, data, size, max, f, ret_next, why);
}

/* -- Refusals ----------------------------------------------------------------------------------------- */

/* The message of a Status; NULL where the body is none. The caller frees it. */
static char *status_message(const char *body, size_t size)
{
    char error[200];
    _cleanup_json_ root = json_parse(body, size, error);
    const char *message = streq(json_get_str(root, "kind"), "Status") ? json_get_str(root, "message") : NULL;
    _cleanup_(freep) char *clean = text_clean(message, false);

    return clean ? xstrndup(clean, MESSAGE_MAX) : NULL;
}

/* The user of a refusal's message, User "system:serviceaccount:NS:NAME"; NULL where it has none. */
static char *refused_user(const char *message)
{
    const char *user = message ? strstr(message, "User \"") : NULL, *end;

    if (!user)
        return NULL;
    user += strlen("User \"");
    end = strchr(user, '"');
    for (const char *c = user; end && c < end; c++)
        if (!isalnum((unsigned char)*c) && !strchr(":-._@", *c))
            return NULL;
    return end ? xstrndup(user, (size_t)(end - user)) : NULL;
}

static void explain_forbidden(const struct source_config *c, const char *message, struct problem *p)
{
    static const char account[] = "system:serviceaccount:";
    const struct kubernetes_resource *resource = resource_of(c);
    int namespace_size = (int)strcspn(c->value, "/");
    _cleanup_(freep) char *user = refused_user(message);
    _cleanup_(freep) char *subject = NULL;

    if (streq(user, "system:anonymous")) {
        problem_remedy(p, "No token was sent. Set kubernetes_token_file= in the section of the fleet.");
        return;
    }
    if (user && starts_with(user, account))
        subject = xasprintf("--serviceaccount=%s", user + strlen(account));
    else
        subject = xasprintf("--user=%s", user ? user : "USER");
    problem_remedy(p,
                   "Allow it that list, and nothing else:\n"
                   "kubectl -n %.*s create role profd --verb=list --resource=%s%s%s\n"
                   "kubectl -n %.*s create rolebinding profd --role=profd %s",
                   namespace_size, c->value, resource->name, resource->group[0] ? "." : "", resource->group,
                   namespace_size, c->value, subject);
}

static bool kubernetes_explain(const struct source_config *c, int status, const char *body, size_t size,
                               struct problem *p)
{
    const struct kubernetes_resource *resource = resource_of(c);
    _cleanup_(freep) char *message = status_message(body, size);
    _cleanup_(freep) char *text = source_config_text(c);
    const char *token = c->kubernetes_token_file ? c->kubernetes_token_file : ACCOUNT_DIR "/token";

    switch (status) {
    case 400:
        if (!message)
            return false;
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s: the Kubernetes API refuses the request: %s", text,
                    message);
        problem_remedy(p, "Correct the selector: kubectl get pods -l SELECTOR takes the same ones.");
        return true;
    case 401:
        problem_set(p, -EACCES, PROBLEM_UPSTREAM,
                    "cannot find workers by %s: the Kubernetes API refuses the token (401)", text);
        problem_remedy(
            p,
            "The token in %s has expired or is of another cluster. In a pod the kubelet renews it; elsewhere "
            "write a new one: kubectl create token profd --namespace profd --duration 24h",
            token);
        return true;
    case 403:
        problem_set(p, -EACCES, PROBLEM_UPSTREAM, "cannot find workers by %s: %s", text,
                    message ? message : "the Kubernetes API denies access (403)");
        explain_forbidden(c, message, p);
        return true;
    case 404:
        problem_set(p, -ENOENT, PROBLEM_UPSTREAM, "cannot find workers by %s: the server has no %s (404)",
                    text, resource->path);
        problem_remedy(p, "%s has it. Check kubernetes_url=: it is the API server, without a path.",
                       resource->since);
        return true;
    case 410:
        problem_set(p, -EAGAIN, PROBLEM_UPSTREAM,
                    "cannot find workers by %s: the list changed while its pages were read", text);
        problem_remedy(p, "Try again. A narrower selector has fewer pages.");
        return true;
    case 429:
        problem_set(p, -EAGAIN, PROBLEM_UPSTREAM,
                    "cannot find workers by %s: the Kubernetes API is overloaded (429)", text);
        problem_remedy(p, "Try again later.");
        return true;
    default:
        return false;
    }
}

/* An error before any answer, or an empty list. */
static const char *kubernetes_remedy(const struct source_config *c, int err, int status)
{
    switch (err) {
    case -EINVAL:
        return "Set kubernetes_url=, kubernetes_ca_file= and kubernetes_token_file= in a section [fleet "
               "NAME] of "
               "profd.conf; or run kubectl proxy, and set kubernetes_url=http://127.0.0.1:8001.";
    case -EPROTO:
        return status == 0 ? "kubernetes_ca_file= is the only authority that is trusted for the API server, "
                             "in PEM: kubectl "
                             "config view --raw has it, encoded, as certificate-authority-data."
                           : NULL;
    case -ENOENT:
        return status != 200             ? NULL
               : resource_of(c) == &pods ? "Compare with kubectl -n NAMESPACE get pods --show-labels; port= "
                                           "names a port by name or number."
                                         : "Compare with kubectl -n NAMESPACE get endpointslices; port= "
                                           "names a port by name or number. Pods "
                                           "without a Service are found by pods=NAMESPACE/SELECTOR.";
    default:
        return NULL;
    }
}

static void kubernetes_complete(const struct source_config *c, struct fleet *f)
{
    kubernetes_settle(f);
}

const struct fleet_source source_kubernetes = {
    .key = "kubernetes",
    .check = check_service,
    .request = kubernetes_request,
    .parse = kubernetes_parse,
    .complete = kubernetes_complete,
    .explain = kubernetes_explain,
    .remedy = kubernetes_remedy,
};

const struct fleet_source source_pods = {
    .key = "pods",
    .check = check_pods,
    .request = kubernetes_request,
    .parse = kubernetes_parse,
    .complete = kubernetes_complete,
    .explain = kubernetes_explain,
    .remedy = kubernetes_remedy,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of the Kubernetes API into workers: EndpointSlices of a Service, and pods of a selector. Pure over bytes.
 *
 * Addresses of pods are given to other pods as soon as they are free. So each worker carries the uid of its pod as its
 * identity, which is never given twice, and a pod that is terminating is left out.
 *
 * Follows the API documents of Kubernetes (kubernetes/kubernetes, staging/src/k8s.io/api/discovery/v1/types.go and
 * core/v1/types.go, v1.34) and the controller that writes EndpointSlices (kubernetes/endpointslice @daa4d010).
 */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/source.h"

/* What is asked for, and how its lists are read. Borrows from a struct source_config. */
struct kubernetes_scope {
    const char *port;       /* name or number; NULL: the one that is certain */
    const char *role_label; /* NULL: those that are known */
    const char *node;       /* only pods on this node; NULL: all */
};

/*
 * One page of an EndpointSliceList (discovery.k8s.io/v1) or a PodList (v1) into workers. Sets *ret_next to the token of
 * the next page where there is one. -EPROTO with words in why where it is no such list, -E2BIG where the fleet would
 * have more than max workers, terminating ones included.
 */
int kubernetes_read_slices(const struct kubernetes_scope *s, const char *data, size_t size, size_t max,
                           struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX]);
int kubernetes_read_pods(const struct kubernetes_scope *s, const char *data, size_t size, size_t max,
                         struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX]);

/*
 * After the last page: entries of one pod become one worker (a pod may be in several slices, and has an entry for each
 * family of its addresses), and pods that are terminating are left out, both with a note.
 */
void kubernetes_settle(struct fleet *f);

/* -- What both readers share -------------------------------------------------------------------------- */

/* A port that a slice or a container declares. Borrows from the answer. */
struct kubernetes_port {
    const char *name; /* never NULL; "" where it has none */
    int number;
    bool tls;     /* its probe or its protocol is https */
    bool sidecar; /* of a container that only stands in front of the server: taken by its name only */
};
#define KUBERNETES_PORTS_MAX 128 /* of one pod or slice; the API allows 100 of a slice */

/* What is known of one entry before it is a worker. Borrows from the answer. */
struct kubernetes_entry {
    const json_t *labels, *annotations; /* NULL: none */
    const char *address;                /* IP address or name, without a port */
    const char *uid, *namespace_, *name, *node;
    enum health health;
    bool terminating;
};

/* Texts of one page that are repeated for each entry, counted. */
struct kubernetes_page {
    const struct kubernetes_scope *scope;
    struct fleet *fleet;
    size_t max;
    size_t n_without_port, n_without_address, n_ended, n_not_workers;
};

/* The items of a list of that kind, after its token of the next page. NULL with words in why. The caller releases
 * *ret_root, from which the result borrows. */
const json_t *kubernetes_list_items(const char *data, size_t size, const char *kind, json_t **ret_root,
                                    char **ret_next, char why[static SOURCE_WHY_MAX]);
/* Adds the worker, or counts in the page why there is none. -E2BIG. */
int kubernetes_add_entry(struct kubernetes_page *page, const struct kubernetes_entry *e,
                         const struct kubernetes_port *ports, size_t n_ports);
/* The notes of what was counted. */
void kubernetes_page_notes(const struct kubernetes_page *page);

/* -- Labels of known projects ------------------------------------------------------------------------- */

/* A project that runs engines in pods, and how it labels them. */
struct kubernetes_project {
    const char *name;
    const char *label, *value; /* marks its pods; value NULL: any */
    const char *roles[2];      /* labels that have the role, the first that is there counts */
    /* the value of its role label that is the role `regular`, where that is no common word */
    const char *regular;
    const char *port;          /* label or annotation with the number of the port */
    const char *port_names[3]; /* names of the server's port, in pods and in Services */
    const char *model;         /* label with the name under which the model is served */
    /* label with the engine: never proof, it only explains a worker that does not answer */
    const char *engine;
    const char *not_workers[4]; /* values of `label` or `roles` whose pods run no engine */
};

/* The project of these labels, NULL where none is known. */
const struct kubernetes_project *kubernetes_project_of(const json_t *labels);
/* Whether the project runs something else than an engine in this pod. */
bool kubernetes_is_no_worker(const struct kubernetes_project *p, const json_t *labels);

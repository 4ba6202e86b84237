/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm=NODES:PORTS: the nodes of a Slurm job, as SLURM_JOB_NODELIST has them, with the ports of the workers on each:
 * "node[1-4,7]:8000-8001". The ports may be in port=, too.
 *
 * profd asks no Slurm: names of nodes are looked up as all host names are. profctl, which a user of the cluster starts,
 * resolves a job to its nodes and their addresses (client/local/slurm.c) and sends those.
 */
#include "base/alloc.h"
#include "base/host_list.h"
#include "daemon/fleet/source.h"
#include <errno.h>

#define PORTS_MAX 64    /* of one node: engines, or ranks of them */
#define NODES_MAX 65536 /* as Slurm's MAX_SLURM_NODES */

/* A value in its parts, borrowed from the configuration. */
struct slurm_value {
    const char *nodes;
    size_t nodes_size;
    int ports[PORTS_MAX];
    size_t n_ports;
};

static int slurm_split(const struct source_config *c, struct slurm_value *ret, const char **reason)
{
    const char *colon = strrchr(c->value, ':');
    const char *ports = colon ? colon + 1 : c->port;

    *ret = (struct slurm_value){.nodes = c->value,
                                .nodes_size = colon ? (size_t)(colon - c->value) : strlen(c->value)};
    if (colon && c->port)
        *reason = " has a port, and port is set, too";
    else if (!ports)
        *reason = " has no port: append :PORT, or set port";
    else
        return port_list_expand(ports, strlen(ports), PORTS_MAX, ret->ports, &ret->n_ports, reason);
    return -EINVAL;
}

static int slurm_check_port(const char *port, const char **reason)
{
    int ports[PORTS_MAX];
    size_t n;

    return port_list_expand(port, strlen(port), PORTS_MAX, ports, &n, reason);
}

static int slurm_check(const struct source_config *c, const char **reason)
{
    struct host_list nodes = {0};
    struct slurm_value value;

    int r = slurm_split(c, &value, reason);
    if (r == 0)
        r = host_list_expand(value.nodes, value.nodes_size, NODES_MAX, &nodes, reason);
    if (r == -E2BIG)
        *reason = " has more than 65536 nodes";
    host_list_done(&nodes);
    return r < 0 ? -EINVAL : 0;
}

static int slurm_look(const struct source_config *c, size_t max, struct fleet *f,
                      char why[static SOURCE_WHY_MAX])
{
    struct host_list nodes = {0};
    struct slurm_value value;
    const char *reason = "";
    struct worker *w;

    int r = slurm_split(c, &value, &reason);
    if (r == 0)
        r = host_list_expand(value.nodes, value.nodes_size, max, &nodes, &reason);
    for (size_t i = 0; i < nodes.n && r == 0; i++)
        for (size_t k = 0; k < value.n_ports && r == 0; k++) {
            _cleanup_(freep) char *address = xasprintf("%s:%d", nodes.names[i], value.ports[k]);
            r = source_add_worker(f, max, NULL, address, &w);
        }
    host_list_done(&nodes);
    if (r == -EINVAL)
        snprintf(why, SOURCE_WHY_MAX, "it%s", reason);
    return r;
}

const struct fleet_source source_slurm = {
    .key = "slurm",
    .check = slurm_check,
    .check_port = slurm_check_port,
    .look = slurm_look,
};

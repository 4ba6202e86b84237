/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways of finding workers without a router: one line each, for daemon and client.
 *
 * X(key, value, help, arg): the key of [fleet NAME] is a member of requests and an option of profctl, too. Add one by
 * a line here, daemon/fleet/source_KEY.c with a `struct fleet_source` (daemon/fleet/source.h says what it does), the
 * key in docs/profd.conf.5.scd, etc/profd.conf, docs/profctl.1.scd and proto/openapi.yaml, a fuzz target and a unit
 * test of its parser. The table in source.c, the key of the configuration, the members and the options follow.
 */
#pragma once

/* clang-format off */
#define FLEET_SOURCES(X, arg) \
    X(targets, "FILE|URL", "Prometheus targets: a file_sd file, JSON or YAML, or an http_sd URL", arg) \
    X(kubernetes, "NS/SERVICE", "Pods of a Kubernetes Service, by its EndpointSlices", arg) \
    X(pods, "NS/SELECTOR", "Kubernetes pods with these labels: inference/app=vllm", arg) \
    X(dns, "NAME:PORT", "All addresses of a name, as of a headless service", arg) \
    X(srv, "NAME", "Targets of DNS SRV records: _http._tcp.NAME", arg) \
    X(slurm, "JOB|NODES[:PORTS]", "Workers of a Slurm job, by its id, or on nodes: 4711:8000, 'node[1-4]:8000-8001'", arg) \
    X(ray, "URL", "Replicas of Ray Serve, by the URL of Ray's dashboard", arg) \
    X(consul, "SERVICE|URL", "Instances of a service in Consul that pass their checks", arg)

/* What a request may add to its source. X(member, option, value, help, the sources that use it, arg) */
#define SOURCE_MEMBERS(X, arg) \
    X(port, "port", "PORT", "Port of the workers that the source finds, by number or name", "kubernetes pods slurm ray", arg) \
    X(role_label, "role-label", "LABEL", "Label of the source that has the role of a worker", "targets kubernetes pods consul", arg) \
    X(node, "node", "NODE", "Only pods on this node of the cluster; here: that of profd's own pod", "kubernetes pods", arg)
/* clang-format on */

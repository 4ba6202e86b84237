/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights that profd-load gives up before it talks to a server: it starts no program, process or thread, opens no
 * file and no other socket than TCP, accepts no connection, signals nobody, inspects no process, leaves no core,
 * and its memory is bounded. Files and name servers are read before (target.h); a process of its own inspects other
 * processes (sampler.h).
 *
 * A list of allowed system calls holds on every kernel; Landlock, where the kernel has it, bounds what these reach. An
 * attempt to start a program kills the process, other calls fail with EPERM, because libraries try calls that they can
 * do without.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* With one thread. TCP connections may be opened to these ports; to all where the kernel cannot filter ports. A
 * negative errno where a right cannot be given up. */
int confine(const uint16_t *ports, size_t n_ports);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profd-load gives up before it talks to anybody: it starts no program, process or thread, opens no file
 * and no other socket than TCP, accepts no connection, signals nobody, looks into no process, leaves no core,
 * and its memory is bounded. What it needs of files and name servers is read before (hosts.h, credentials in
 * daemon/fleet/call.h); what looks into processes is a process apart (sampling.h).
 *
 * A list of the system calls that are allowed holds on every kernel; Landlock, where the kernel has it,
 * bounds what these reach. An attempt to start a program kills the process, other calls fail by EPERM:
 * libraries of others ask for what they can do without.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* With one thread. TCP connections may be opened to these ports; to all where the kernel cannot tell them. A
 * negative errno value where something cannot be given up. */
int confine(const uint16_t *ports, size_t n_ports);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profd-load gives up before it talks to anybody: it starts no program and no process, makes, changes
 * and removes no file, accepts no connection, looks into no process, leaves no core, and has so
 * much memory and no more.
 *
 * Unlike profd-ingest's sandbox this is a list of what is forbidden: name services, TLS and drivers of GPUs
 * are libraries of others, which need what they need. A forbidden start kills the process, the rest fails by
 * EPERM.
 */
#pragma once

/* All threads, those that run already as well. A negative errno value where the kernel does not have it. */
int confine(void);

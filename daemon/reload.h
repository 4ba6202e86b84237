/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `systemctl reload`: profd.conf is read again while sessions go on.
 *
 * All or nothing: a file with an error, a key that only a restart changes, or a room that cannot take what is
 * said changes nothing, and the log and the status line say why. A session under way keeps what it has
 * decided (its limit, its workers and directories); what it asks for later, such as the time that a stop may
 * take, is as it is said then. Blocks for the time that a small file takes.
 */
#pragma once

struct manager;

void reload(struct manager *m);

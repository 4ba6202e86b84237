/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The browser of the user: whether there is one here, and what to do where it is on another machine. Owns nothing; a browser
 * that was started goes on by itself.
 */
#pragma once

#include "client/cli/client.h"

/*
 * After an address of a port of this machine's loopback was printed: opens it in a browser, with $BROWSER or xdg-open, where there is
 * a display, and root only there. Over ssh, prints the port forwarding that its user needs instead. may_open: else only
 * that.
 */
void browser_show(struct client *c, const char *url, int port, bool may_open);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/verb.h"

/* What may stand for the last of the words of a command line, for the shells' scripts. Returns EXIT_DONE. */
int completion_print(struct client *c, int n_words, char **words);

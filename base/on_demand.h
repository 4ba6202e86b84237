/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared libraries that a program loads at the first call of one of their functions, so that it starts, and stays
 * as small, as if it did not need them.
 *
 * on_demand_LIBRARY.S lists the functions of a library. Each is defined there under its own name and jumps to the
 * function of the library, with all its arguments as they are. A program that links these definitions does not need the
 * library at start; callers are the same as in a program that links the library itself. A new function of the library
 * that a program calls needs its name there: without it, the linker adds the library as for any other program, and
 * tests/integration/test_start.py fails. Functions only: variables of a library cannot be found this way.
 *
 * On a processor that on_demand_call.h does not know, programs link the libraries themselves.
 */
#pragma once

struct on_demand_library {
    const char *soname;
    void *handle; /* NULL: not loaded */
};

/* Of the layout that on_demand_call.h makes. */
struct on_demand_function {
    void *address; /* NULL: not called yet */
    struct on_demand_library *library;
    const char *name;
};

/* The address of the function; loads its library first if necessary. Ends the process if either is missing: the
 * package depends on the library. May be called by several threads. */
void *on_demand_find(struct on_demand_function *function);

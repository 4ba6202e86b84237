/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared libraries that a program loads at the first call of one of their functions, so that it starts, and stays
 * as small, as if it did not need them.
 *
 * on_demand_LIBRARY.c defines the functions of a library under their own names: each passes its call on. A
 * program that links these definitions does not need the library at start; callers are the same as in a program
 * that links the library itself. A new function of the library that a program calls needs a line there: without
 * it, the linker adds the library as for any other program, and tests/integration/test_start.py fails.
 */
#pragma once

struct on_demand_library {
    const char *soname;
    void *handle; /* NULL: not loaded */
};

/* The address of the function; loads the library first if necessary. Ends the process if either is missing: the
 * package depends on the library. May be called by several threads. */
void *on_demand_find(struct on_demand_library *library, const char *name);

/* Defines a function: its type, its name, its parameters and the arguments that it passes on. In C it has another
 * name, because a "const" more or less differs between the headers of a library's versions. */
#define ON_DEMAND(library, type, name, parameters, arguments)                                                \
    ON_DEMAND_DECLARE(type, name, parameters);                                                               \
    type on_demand_##name parameters                                                                         \
    {                                                                                                        \
        return ON_DEMAND_REAL(library, name) arguments;                                                      \
    }

#define ON_DEMAND_DECLARE(type, name, parameters)                                                            \
    type on_demand_##name parameters __asm__(#name) __attribute__((visibility("hidden")))

/* The function in the library, looked up once. */
#define ON_DEMAND_REAL(library, name)                                                                        \
    ({                                                                                                       \
        static __typeof__(name) *_real;                                                                      \
        __typeof__(name) *_found = __atomic_load_n(&_real, __ATOMIC_RELAXED);                                \
        if (!_found) {                                                                                       \
            _found = (__typeof__(name) *)on_demand_find(library, #name);                                     \
            __atomic_store_n(&_real, _found, __ATOMIC_RELAXED);                                              \
        }                                                                                                    \
        _found;                                                                                              \
    })

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ON_DEMAND(SONAME, FUNCTION, ...) defines the functions of a library that is loaded at the first call of one of them
 * (on_demand.h). For the assembler: only there can a call be passed on without the types of its arguments, of
 * which a function may have any number.
 *
 * Each function jumps to the address in its `struct on_demand_function`. At its first call, all registers that may
 * hold arguments are saved while on_demand_find() looks the address up. No function takes vectors of more than 128
 * bits. The directives .cfi_* let debuggers and profilers see who called while a library is loaded.
 */
#pragma once

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

/* clang-format off */
#if defined(__x86_64__) && defined(__LP64__)

/* Jumps by %r11, which no argument uses. */
.macro on_demand_jump function
        _CET_ENDBR
        movq    \function(%rip), %r11
        testq   %r11, %r11
        je      1f
        jmp     *%r11
1:      leaq    \function(%rip), %r11
        jmp     on_demand_first_call
.endm

.macro on_demand_first_call
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        .irp    register, rdi, rsi, rdx, rcx, r8, r9, rax, r10
        pushq   %\register
        .endr
        subq    $128, %rsp
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movups  %xmm\i, 16 * \i(%rsp)
        .endr
        movq    %r11, %rdi
        call    on_demand_find
        movq    %rax, %r11
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movups  16 * \i(%rsp), %xmm\i
        .endr
        addq    $128, %rsp
        .irp    register, r10, rax, r9, r8, rcx, rdx, rsi, rdi
        popq    %\register
        .endr
        popq    %rbp
        .cfi_def_cfa %rsp, 8
        jmp     *%r11
.endm

#elif defined(__aarch64__) && defined(__LP64__)

/* Jumps by x16 and x17, which no argument uses. hint 34 is "bti c". The address is loaded with acquire semantics: who
 * sees the address that another thread stored also sees the library that this one loaded. x86 has no other loads. */
.macro on_demand_jump function
        hint    34
        adrp    x16, \function
        add     x16, x16, :lo12:\function
        ldar    x17, [x16]
        cbz     x17, 1f
        br      x17
1:      b       on_demand_first_call
.endm

.macro on_demand_first_call
        stp     x29, x30, [sp, -224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov     x29, sp
        .cfi_def_cfa_register x29
        stp     x0, x1, [sp, 16]
        stp     x2, x3, [sp, 32]
        stp     x4, x5, [sp, 48]
        stp     x6, x7, [sp, 64]
        str     x8, [sp, 80]
        stp     q0, q1, [sp, 96]
        stp     q2, q3, [sp, 128]
        stp     q4, q5, [sp, 160]
        stp     q6, q7, [sp, 192]
        mov     x0, x16
        bl      on_demand_find
        mov     x17, x0
        ldp     x0, x1, [sp, 16]
        ldp     x2, x3, [sp, 32]
        ldp     x4, x5, [sp, 48]
        ldp     x6, x7, [sp, 64]
        ldr     x8, [sp, 80]
        ldp     q0, q1, [sp, 96]
        ldp     q2, q3, [sp, 128]
        ldp     q4, q5, [sp, 160]
        ldp     q6, q7, [sp, 192]
        ldp     x29, x30, [sp], 224
        .cfi_def_cfa sp, 0
        .cfi_restore x29
        .cfi_restore x30
        br      x17
.endm

#endif

.macro on_demand_function name
        .globl  \name
        .hidden \name
        .type   \name, %function
        .balign 16
\name:
        .cfi_startproc
        on_demand_jump .Lfunction_\name
        .cfi_endproc
        .size   \name, . - \name

        .section .rodata.str1.1, "aMS", %progbits, 1
.Lname_\name:
        .asciz  "\name"
        .data
        .balign 8
.Lfunction_\name:
        .quad   0, .Llibrary, .Lname_\name
        .text
.endm

.macro on_demand_library soname, names:vararg
        .section .rodata.str1.1, "aMS", %progbits, 1
.Lsoname:
        .asciz  "\soname"
        .data
        .balign 8
.Llibrary:
        .quad   .Lsoname, 0
        .text
        .type   on_demand_first_call, %function
on_demand_first_call:
        .cfi_startproc
        on_demand_first_call
        .cfi_endproc
        .size   on_demand_first_call, . - on_demand_first_call

        .irp    name, \names
        on_demand_function \name
        .endr
        .section .note.GNU-stack, "", %progbits
.endm

#define ON_DEMAND(...) on_demand_library __VA_ARGS__

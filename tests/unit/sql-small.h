/* SPDX-License-Identifier: Apache-2.0 */
/* A small trace with a little of everything, as text, for the tests of SQL. */
#pragma once

#define X(cat, name, tid, ts, dur)                                                                           \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" tid ",\"ts\":" ts           \
    ",\"dur\":" dur
#define ARGS(args) ",\"args\":{" args "}},"
#define PLAIN      "},"

static const char small[] =
    "{\"traceEvents\":["
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"ts\":0,\"args\":{\"name\":\"python\"}},"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1,\"ts\":0,\"args\":{\"name\":\"main\"}}," X(
        "cpu_op", "outer", "1", "10", "100") ARGS("\"External id\":7,\"Input Dims\":[[2,3],[],[4]]")
        X("cpu_op", "inner", "1", "20.5", "30") PLAIN X("cuda_runtime", "cudaLaunchKernel", "1", "25", "5")
            ARGS("\"correlation\":11,\"cbid\":211") X("kernel", "gemm", "7", "40", "10.25")
                ARGS("\"correlation\":11,\"stream\":7,\"device\":0,\"grid\":[1,2,3],\"blocks per SM\":1.5")
                    X("gpu_memcpy", "Memcpy HtoD", "7", "60", "2") ARGS("\"stream\":7,\"bytes\":4096")
                        X("kernel", "gemm", "7", "70", "3")
                            ARGS("\"stream\":7") "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\","
                                                 "\"name\":\"[memory]\",\"pid\":1,\"tid\":1,\"ts\":30,"
                                                 "\"args\":{\"Addr\":139,\"Bytes\":512,\"Total "
                                                 "Allocated\":1024,\"Device Type\":1,\"Device Id\":0}},"
                                                 "{\"ph\":\"s\",\"id\":11,\"pid\":1,\"tid\":1,\"ts\":25,"
                                                 "\"cat\":\"ac2g\",\"name\":\"ac2g\"},"
                                                 "{\"ph\":\"f\",\"bp\":\"e\",\"id\":11,\"pid\":1,\"tid\":7,"
                                                 "\"ts\":40,\"cat\":\"ac2g\",\"name\":\"ac2g\"},"
                                                 "{\"ph\":\"C\",\"cat\":\"c\",\"name\":\"load\",\"pid\":1,"
                                                 "\"tid\":1,\"ts\":33,\"args\":{\"v\":2.5}}"
                                                 "]}";

# SPDX-License-Identifier: Apache-2.0
"""Writes what torch.profiler recorded as Kineto's JSON, the form that GPU machines produce.

Where torch is built with Kineto, torch exports by itself. Debian's is built without: its profiler records the same
events (operators, annotations, Python frames), but exports an old format, so they are written out here in the layout
of libkineto's output_json.cpp: the same keys in the same order, times in microseconds after baseTimeNanoseconds.

One process stands for all ranks of a worker. A worker of several ranks therefore gets one file for each rank with the
same events; only `distributedInfo` tells them apart. Nothing here is made up beyond that.
"""
import gzip
import json
import os
import pathlib
import tempfile
import threading

import torch
from torch.profiler import ProfilerActivity

# Kineto counts from the last such border before the trace, so that microseconds keep three decimals in a double.
BASE_TIME_PERIOD_NS = 90 * 24 * 3600 * 10**9
HAS_KINETO = torch.profiler.kineto_available()


def activities(gpu_wanted=True):
    """What can be recorded here: always the CPU, the GPU where there is one."""
    found = [ProfilerActivity.CPU]
    if gpu_wanted and HAS_KINETO and torch.cuda.is_available():
        found.append(ProfilerActivity.CUDA)
    return found


def export(profile, files, metadata):
    """Writes a stopped profile to `files`, a list of (path, distributedInfo). As torch does: uncompressed to a
    temporary file first, then compressed straight into the final name, which is thus visible while half written."""
    handle, plain = tempfile.mkstemp(".json")
    os.close(handle)
    try:
        if HAS_KINETO:
            profile.export_chrome_trace(plain)
        else:
            with open(plain, "w", encoding="utf-8") as out:
                _write_kineto(profile, out)
        with open(plain, encoding="utf-8") as source:
            head, events = source.read().split('"traceEvents"', 1)
    finally:
        os.unlink(plain)
    for path, distributed_info in files:
        extra = {"distributedInfo": distributed_info, **metadata}
        lines = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n  " for key, value in extra.items())
        opened = gzip.open(path, "wt", encoding="utf-8") if path.endswith(".gz") else open(path, "w", encoding="utf-8")
        with opened as out:
            out.write(head + lines + '"traceEvents"')
            out.write(events)


def distributed_info(rank, world_size):
    return {"backend": "gloo", "rank": rank, "world_size": world_size, "pg_count": 1,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo",
                           "pg_size": world_size, "ranks": list(range(world_size))}], "nccl_version": "2.27.7"}


def _write_kineto(profile, out):
    results = profile.profiler.kineto_results
    roots = results.experimental_event_tree()
    start_ns = min((root.start_time_ns for root in roots), default=results.trace_start_us() * 1000)
    base_ns = start_ns - start_ns % BASE_TIME_PERIOD_NS
    pid, tid = os.getpid(), threading.get_native_id()

    out.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [\n  ],\n')
    if profile.record_shapes:
        out.write('  "record_shapes": 1,\n')
    if profile.with_stack:
        out.write('  "with_stack": 1,\n')
    out.write(f'  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {base_ns},\n  "traceEvents": [\n')
    end_ns = start_ns
    for index, (event, category, parent_id) in enumerate(_walk(roots)):
        end_ns = max(end_ns, event.end_time_ns)
        _write_event(out, index, event, category, parent_id, pid, tid, base_ns, profile.record_shapes)
    _write_names(out, pid, tid, _micros(start_ns - base_ns))
    _write_window(out, _micros(start_ns - base_ns), _micros(end_ns - start_ns), _micros(end_ns - base_ns))
    trace_name = json.dumps(out.name)
    out.write(f'  ],\n  "traceName": {trace_name}\n}}\n')


def _walk(roots):
    """Every slice, each before its children, with its category and the number of the Python frame that called it."""
    pending = [(root, None) for root in reversed(roots)]
    while pending:
        event, parent_id = pending.pop()
        category = _category(event)
        if category:
            yield event, category, parent_id
        own = event.id if category == "python_function" else parent_id
        pending.extend((child, own) for child in reversed(event.children))


def _category(event):
    """None for what is no slice, as allocations are."""
    if event.tag.name == "TorchOp":
        return "user_annotation" if event.extra_fields.scope.name == "USER_SCOPE" else "cpu_op"
    return "python_function" if event.tag.name in ("PyCall", "PyCCall") else None


def _write_event(out, index, event, category, parent_id, pid, tid, base_ns, with_shapes):
    if category == "python_function":
        args = {"Python parent id": parent_id, "Python id": event.id, "Ev Idx": index}
        if event.name.startswith("nn.Module: "):
            args["Python module id"] = int(event.name.rpartition("_")[2])
    else:
        args = {"External id": event.correlation_id, "Record function id": 0, "Ev Idx": index}
        if with_shapes and category == "cpu_op":
            args["Input Dims"] = event.extra_fields.inputs.shapes
            args["Input type"] = event.extra_fields.inputs.dtypes
    inner = ",".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in args.items())
    name = json.dumps(event.name)
    out.write(f'  {{\n    "ph": "X", "cat": "{category}", "name": {name}, "pid": {pid}, "tid": {tid},\n'
              f'    "ts": {_micros(event.start_time_ns - base_ns)}, "dur": {_micros(event.duration_time_ns)},\n'
              f'    "args": {{\n      {inner}\n    }}\n  }},\n')


def _write_names(out, pid, tid, ts):
    name = json.dumps(pathlib.Path("/proc/self/comm").read_text(encoding="utf-8").strip())
    rows = (("process_name", 0, f'"name": {name}'), ("process_labels", 0, '"labels": "CPU"'),
            ("process_sort_index", 0, f'"sort_index": {pid}'), ("thread_name", tid, f'"name": "thread {tid} ({pid})"'),
            ("thread_sort_index", tid, f'"sort_index": {tid}'))
    for kind, thread, value in rows:
        out.write(f'  {{\n    "name": "{kind}", "ph": "M", "ts": {ts}, "pid": {pid}, "tid": {thread},\n'
                  f'    "args": {{\n      {value}\n    }}\n  }},\n')


def _write_window(out, start, duration, end):
    out.write(f'''  {{
    "ph": "X", "cat": "Trace", "ts": {start}, "dur": {duration},
    "pid": "Spans", "tid": "PyTorch Profiler",
    "name": "PyTorch Profiler (0)",
    "args": {{
      "Op count": 0
    }}
  }},
  {{
    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",
    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {start}
  }},
  {{
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": {end}
  }}
''')


def _micros(ns):
    return f"{ns // 1000}.{ns % 1000:03d}"

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real inference worker for tests and the demo, of one of the engines of ENGINES.

It answers completions by computing them (model.py, in the process of engine.py), and it has the profile endpoints of
the engine that it stands for, with their semantics, file names and quirks (vllm_profiling.py, sglang_profiling.py, ...).
It prints http://HOST:PORT when it is ready, and writes it into --port-file.
"""
import argparse
import asyncio
import gc
import importlib
import logging
import os
import sys

DEFAULT_VERSIONS = {"vllm": "0.20.0", "sglang": "0.5.10", "rtp-llm": "0.2.0", "tensorrt-llm": "1.3.0rc15",
                    "atom": "0.1.7", "tokenspeed": "0.1.0"}
PROCESS_NAMES = {"vllm": "VLLM::EngineCore", "sglang": "sglang::scheduler", "rtp-llm": "rtp_llm_backend",
                 "tensorrt-llm": "trtllm-serve", "atom": "atom::runner", "tokenspeed": "tokenspeed::scheduler_0"}
# The module of the HTTP server, its class, and the module and class of the profiler.
ENGINES = {"vllm": ("vllm_api", "VllmServer", "vllm_profiling", "WorkerProfiler"),
           "sglang": ("sglang_api", "SglangServer", "sglang_profiling", "ProfilerManager"),
           "rtp-llm": ("rtp_llm_api", "RtpLlmServer", "rtp_llm_profiling", "StepProfiler"),
           "tensorrt-llm": ("trtllm_api", "TrtllmServer", "trtllm_profiling", "WindowProfiler"),
           "atom": ("atom_api", "AtomServer", "atom_profiling", "RankProfiler"),
           "tokenspeed": ("tokenspeed_api", "TokenspeedServer", "tokenspeed_profiling", "SchedulerProfiler")}


def parser():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parse.add_argument
    add("--engine", choices=tuple(DEFAULT_VERSIONS), required=True)
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=0)
    add("--port-file")
    add("--model", "--model-path", default="tiny-random")
    add("--device", default="cpu")
    add("--api-key")
    add("--step-ms", type=float, default=80, help="a step starts at the earliest so long after the one before")
    add("--max-num-seqs", type=int, default=8)
    add("--max-model-len", type=int, default=1024)
    add("--disable-fastapi-docs", action="store_true")
    add("--dynamo", choices=("newer", "older"), help="be a worker of NVIDIA Dynamo with this engine: serve what its system "
        "status server serves, of this generation")
    vllm = parse.add_argument_group("vllm", "also --profiler-config JSON and --profiler-config.KEY=VALUE")
    vllm.add_argument("--vllm-version")
    vllm.add_argument("--config", help="a YAML file of flags; the command line wins")
    vllm.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    vllm.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
    vllm.add_argument("--data-parallel-size", "-dp", type=int, default=1)
    sglang = parse.add_argument_group("sglang")
    sglang.add_argument("--sglang-version")
    sglang.add_argument("--tp-size", "--tp", type=int, default=1)
    sglang.add_argument("--dp-size", "--dp", type=int, default=1)
    sglang.add_argument("--pp-size", "--pp", type=int, default=1)
    sglang.add_argument("--admin-api-key")
    sglang.add_argument("--enable-metrics", action="store_true")
    sglang.add_argument("--disaggregation-mode", choices=("null", "prefill", "decode"), default="null")
    sglang.add_argument("--speculative-algorithm")
    trtllm = parse.add_argument_group("tensorrt-llm", "also --tp_size and --pp_size")
    trtllm.add_argument("--tp_size", dest="tp_size", type=int, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    trtllm.add_argument("--pp_size", dest="pp_size", type=int, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    trtllm.add_argument("--tensorrt-llm-version")
    trtllm.add_argument("--backend", choices=("pytorch", "tensorrt"), default="pytorch")
    trtllm.add_argument("--return-perf-metrics", action="store_true")
    trtllm.add_argument("--no-profile-routes", action="store_true", help="a version before /start_profile")
    atom = parse.add_argument_group("atom", "also --tensor-parallel-size and --data-parallel-size")
    atom.add_argument("--torch-profiler-dir")
    atom.add_argument("--kv-role", choices=("kv_producer", "kv_consumer"), help="of its --kv-transfer-config")
    atom.add_argument("--compress-s", type=float, default=0, help="how long it compresses a trace")
    rtp_llm = parse.add_argument_group("rtp-llm", "also --tp-size and --dp-size")
    rtp_llm.add_argument("--torch_cuda_profiler_dir")
    rtp_llm.add_argument("--gen_timeline_sync", action="store_true", help="record each request")
    return parse


def parse_options(arguments):
    import vllm_profiling
    arguments, profiler_flags = vllm_profiling.merge_flags(arguments)
    parse = parser()
    options = parse.parse_args(arguments)
    profiler_config = {}
    if options.config:
        from_file = read_config(options.config, parse, set(vars(options)))
        profiler_config = from_file.pop("profiler_config", {})
        parse.set_defaults(**from_file)
        options = parse.parse_args(arguments)
    options.version = getattr(options, options.engine.replace("-", "_") + "_version", None) or DEFAULT_VERSIONS[options.engine]
    options.mixed_batches = options.engine != "sglang"
    options.engine_process_name = PROCESS_NAMES[options.engine]
    if options.engine == "vllm":
        try:
            options.profiler_config = vllm_profiling.configuration(
                {**profiler_config, **profiler_flags}, options.version, os.environ)
        except ValueError as error:
            parse.error(str(error))
    return options


def read_config(path, parse, known):
    """The flags of a YAML file, by the names of argparse; `profiler-config` as a dictionary."""
    import json
    import yaml
    with open(path, encoding="utf-8") as source:
        flags = {key.replace("-", "_"): value for key, value in (yaml.safe_load(source) or {}).items()}
    profiler_config = flags.get("profiler_config")
    if isinstance(profiler_config, str):
        flags["profiler_config"] = json.loads(profiler_config)
    unknown = set(flags) - known - {"profiler_config"}
    if unknown:
        parse.error(f"{path}: unknown keys: {', '.join(sorted(unknown))}")
    return flags


def main():
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(asctime)s [%(name)s] %(message)s")
    import torch
    torch.set_num_threads(1)
    options = parse_options(sys.argv[1:])
    # The engine core is forked before the server opens a socket or starts a thread.
    import engine_client
    gc.freeze()
    api, server_name, profiling, profiler_name = ENGINES[options.engine]
    client = engine_client.EngineClient(options, getattr(importlib.import_module(profiling), profiler_name))
    server = getattr(importlib.import_module(api), server_name)(client, options)
    if options.dynamo:
        import dynamo_api
        server.app = dynamo_api.SystemStatusServer(server, options.dynamo == "older").app
    return asyncio.run(server.serve())


if __name__ == "__main__":
    sys.exit(main())

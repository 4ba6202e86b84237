#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real inference worker for tests and the demo: `--engine vllm`, `sglang` or `rtp-llm`.

It answers completions by computing them (model.py, in the process of engine.py), and it has the profile endpoints of
the engine that it stands for, with their semantics, file names and quirks (vllm_profiling.py, sglang_profiling.py,
rtp_llm_profiling.py).
It prints http://HOST:PORT when it is ready, and writes it into --port-file.
"""
import argparse
import asyncio
import gc
import logging
import os
import sys

DEFAULT_VERSIONS = {"vllm": "0.20.0", "sglang": "0.5.10", "rtp-llm": "0.2.0"}
PROCESS_NAMES = {"vllm": "VLLM::EngineCore", "sglang": "sglang::scheduler", "rtp-llm": "rtp_llm_backend"}


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
    options.version = getattr(options, options.engine + "_version", None) or DEFAULT_VERSIONS[options.engine]
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
    if options.engine == "vllm":
        import vllm_api
        import vllm_profiling
        client = engine_client.EngineClient(options, vllm_profiling.WorkerProfiler)
        server = vllm_api.VllmServer(client, options)
    elif options.engine == "rtp-llm":
        import rtp_llm_api
        import rtp_llm_profiling
        client = engine_client.EngineClient(options, rtp_llm_profiling.StepProfiler)
        server = rtp_llm_api.RtpLlmServer(client, options)
    else:
        import sglang_api
        import sglang_profiling
        client = engine_client.EngineClient(options, sglang_profiling.ProfilerManager)
        server = sglang_api.SglangServer(client, options)
    if options.dynamo:
        import dynamo_api
        server.app = dynamo_api.SystemStatusServer(server, options.dynamo == "older").app
    return asyncio.run(server.serve())


if __name__ == "__main__":
    sys.exit(main())

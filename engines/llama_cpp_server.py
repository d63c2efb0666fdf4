#!/usr/bin/env python3
"""Runs llama.cpp's own HTTP server, out of the wheel xllamacpp, on loopback until it is told to stop."""

import argparse
import signal

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--parallel", type=int, default=4, help="slots: requests served at once")
    parser.add_argument("--context", type=int, default=8192, help="tokens, shared out over the slots")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    # Blocked before the server starts its threads, so that all of them leave these signals to sigwait below.
    stop_signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = as_field(params.model_alias, "smollm2")
    params.hostnames = as_field(params.hostnames, "127.0.0.1")
    params.port = options.port
    params.n_parallel = options.parallel
    params.n_ctx = options.context
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.n_gpu_layers = 0
    params.offline = True
    params.use_jinja = True
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.endpoint_props = True

    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    signal.sigwait(stop_signals)
    print("stopping", flush=True)
    del server


def as_field(field: object, value: str) -> object:
    """The value in the type the field has: versions of the wheel differ between a string, a list and a set."""
    return value if isinstance(field, str) else type(field)([value])


if __name__ == "__main__":
    main()

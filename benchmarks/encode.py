"""How fast compressors are: python benchmarks/encode.py [--mib 64] [--rounds 7] [--json FILE]

Encodes a tensor of 64 MiB with each compressor and decodes it into a tensor that is there, on two threads, beside a
copy of that tensor in memory by torch on as many threads, and
prints the ratios of the medians: all of one run, in turns, as other work on the machine
slows both. `randomness` is the share of the time that its random numbers alone take. Top-k is compared with torch.topk.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch

from wirebound.files import write_json
from wirebound.simulate.compressors import compressor_named
from wirebound.techniques.compress import fused, random
from wirebound.techniques.compress.compressor import compressor_of

THREADS = 2
TEXTS = ("fp16", "bf16", "signsgd", "ef-signsgd", "onebit", "qsgd:7", "qsgd:16", "qsgd:127", "terngrad")
SPARSE = ("randomk:0.01", "topk:0.01", "gtopk:0.01", "dgc:0.01")
#: Encode and decode ÷ memory copy; Top-k ÷ torch.topk.
TARGETS = {"fp16": 5, "signsgd": 2.5, "ef-signsgd": 2.5, "qsgd:7": 4, "topk:0.01": 1.5}


def seconds(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def measure(mebibytes, rounds):
    """Medians and fastest times in seconds by name, of calls in turns."""
    torch.set_num_threads(THREADS)
    shape = (mebibytes * 256, 1024)
    gradient = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    copy, out, numbers = torch.empty_like(gradient), torch.empty_like(gradient), torch.empty(gradient.numel())
    device, elements = torch.device("cpu"), gradient.numel()
    magnitudes, kept = gradient.abs().view(-1), -(-elements // 100)
    calls = {
        "copy": lambda: copy.copy_(gradient),
        "random numbers": lambda: random.uniform(elements, (0, 0, 0, 0), device, numbers),
        "random places": lambda: random.distinct(kept, elements, (0, 0, 0, 0), device),
        "torch.topk": lambda: torch.topk(magnitudes, kept, sorted=False),
    }
    payloads = {}
    for text in TEXTS + SPARSE:
        compressor = compressor_of(compressor_named(text))
        state = compressor.new_state(0, 0, 0)

        def encode(compressor=compressor, state=state, text=text):
            payloads[text] = compressor.encode(gradient, state)

        calls[f"{text} encode"] = encode
        calls[f"{text} decode"] = lambda compressor=compressor, text=text: compressor.decode(payloads[text], shape, out)
    for call in calls.values():
        call()
    found = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(seconds(call))
    medians = {name: statistics.median(times) for name, times in found.items()}
    fastest = {name: min(times) for name, times in found.items()}
    return medians, fastest, {text: payload.nbytes for text, payload in payloads.items()}


def report(medians, fastest, sizes):
    """Print a line for each compressor; return the ratios."""
    rows = {}
    print(f"copy {1e3 * medians['copy']:.1f} ms, torch.topk {1e3 * medians['torch.topk']:.0f} ms (medians)")
    for text in TEXTS + SPARSE:
        both = medians[f"{text} encode"] + medians[f"{text} decode"]
        best = fastest[f"{text} encode"] + fastest[f"{text} decode"]
        row = {
            "encode_s": medians[f"{text} encode"],
            "decode_s": medians[f"{text} decode"],
            "over_copy": both / medians["copy"],
            "over_copy_fastest": best / fastest["copy"],
            "payload_bytes": sizes[text],
        }
        line = f"{text:14} encode {1e3 * row['encode_s']:7.1f} ms, decode {1e3 * row['decode_s']:6.1f} ms: "
        line += f"{row['over_copy']:6.2f}× a copy ({row['over_copy_fastest']:.2f}× by fastest times)"
        if text in ("topk:0.01", "gtopk:0.01", "dgc:0.01"):
            row["over_topk"] = both / medians["torch.topk"]
            line += f", {row['over_topk']:.2f}× torch.topk"
        numbers = "random numbers" if text.startswith(("qsgd", "tern")) else "random places"
        if text.startswith(("qsgd", "tern", "randomk")):
            row["randomness"] = medians[numbers] / both
            line += f", randomness {row['randomness']:.0%}"
        if text in TARGETS:
            line += f" (target {TARGETS[text]}×)"
        rows[text] = row
        print(line)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64, help="size of the tensor")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    compiled = fused.kernels_for(torch.zeros(1)) is not None
    print(f"{options.mib} MiB, {THREADS} threads, {'compiled kernels' if compiled else 'torch operations'}")
    rows = report(*measure(options.mib, options.rounds))
    if options.json:
        write_json(options.json, {"compiled": compiled, "threads": THREADS, "mib": options.mib, "compressors": rows})


if __name__ == "__main__":
    main()

"""Measure what compressors cost on this machine and fit it: a file for `--codec`.

    python -m wirebound.study.record_codec --out CODEC.json [--compressor topk:0.01 …]

Encodes and decodes Gaussian gradients of 16 KiB to 16 MiB, fits α + β·S to both (S bytes of uncompressed gradient), and
writes figures, fits, samples and the machine record; about a minute on two cores. `wirebound predict --compressor
topk:0.01 --codec CODEC.json` then takes the figures of that compressor.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from wirebound.files import require_writable, write_json
from wirebound.profile.recording import recording_parser, run_recording, tell

COMPRESSORS = (
    "fp16",
    "bf16",
    "onebit",
    "signsgd",
    "ef-signsgd",
    "qsgd:7",
    "qsgd:16",
    "terngrad",
    "randomk:0.01",
    "topk:0.001",
    "topk:0.01",
    "gtopk:0.01",
    "dgc:0.001",
    "dgc:0.01",
)


def record_codecs(
    names: Sequence[str] = COMPRESSORS,
    sizes: Sequence[int] | None = None,
    *,
    repetitions: int = 7,
    seed: int = 0,
    tell: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return the document of all codecs; raises `InputError` for a name that no compressor has."""
    from wirebound.fit.codec import fit_codec
    from wirebound.fit.codec_document import codec_document
    from wirebound.profile.disturbance import DisturbanceWatch, load_warnings
    from wirebound.profile.machine import machine_record
    from wirebound.simulate.compressors import compressor_named
    from wirebound.techniques.compress.compressor import compressor_of
    from wirebound.techniques.compress.measure import DEFAULT_SIZES, measure_coding

    chosen = [compressor_named(name) for name in names]
    real = [compressor_of(compressor) for compressor in chosen]
    machine = machine_record()
    warnings, watch = load_warnings(machine), DisturbanceWatch()
    codecs: dict[str, dict[str, Any]] = {}
    for compressor, coder in zip(chosen, real, strict=True):
        tell(compressor.label)
        samples = measure_coding(coder, sizes or DEFAULT_SIZES, repetitions=repetitions, seed=seed)
        columns = [list(column) for column in zip(*samples, strict=True)]
        fit = fit_codec(columns[0], columns[1], columns[2], seed=seed)
        codecs[compressor.label] = asdict(fit.codec) | {
            "encode_verdict": fit.encode.verdict,
            "decode_verdict": fit.decode.verdict,
            "samples": [[size, round(encode_s, 9), round(decode_s, 9)] for size, encode_s, decode_s in samples],
        }
    waited = watch.waiting_share()
    if waited is not None and waited > 0.1:
        warnings.append(f"threads waited {waited:.2f} s per second for a core: other work was running")
    return codec_document(
        codecs,
        source="python -m wirebound.study.record_codec: encode and decode of fp32 Gaussian gradients, CPU tensors",
        samples="[bytes of gradient, seconds of encode, seconds of decode], one repetition each",
        seed=seed,
        machine=machine,
        warnings=warnings,
    )


def main(arguments: list[str] | None = None) -> int:
    """Record into a file; returns the exit code."""
    parser = recording_parser("wirebound.study.record_codec", __doc__, out="CODEC.json", what="the codecs go")
    parser.add_argument("--compressor", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--repetitions", type=int, default=7, help="of each size (default 7)")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        require_writable(options.out)
        document = record_codecs(
            options.compressor or COMPRESSORS,
            repetitions=options.repetitions,
            tell=tell,
        )
        write_json(options.out, document)
        return list(document["warnings"])

    return run_recording("record", record_all)


if __name__ == "__main__":
    sys.exit(main())

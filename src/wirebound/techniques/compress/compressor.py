"""What all compressors have in common, and their catalogue by the names that the command line uses."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor

from wirebound.errors import InputError, unknown_name
from wirebound.model import Compressor
from wirebound.techniques.compress.payload import Payload, Travel


class GradientCompressor(Protocol):
    """Settings of one compressor, with which it encodes and decodes any tensor.

    `encode` takes a gradient of any shape and the state that `new_state` made for it, and brings that up to date;
    nothing else is remembered. It raises `WireboundError`, and leaves the state as it was, where a value is infinite
    or not a number. `decode` returns fp32 values in the shape asked for, in `out` (fp32, contiguous, of
    that shape) where one is given: fresh memory costs more than most decoding.
    """

    @property
    def travels(self) -> Travel: ...
    def new_state(self, seed: int, worker: int, tensor: int) -> Any: ...
    def encode(self, tensor: Tensor, state: Any) -> Payload: ...
    def decode(self, payload: Payload, shape: Sequence[int], out: Tensor | None = None) -> Tensor: ...


def compressor_of(chosen: Compressor) -> GradientCompressor:
    """Return the compressor that a `wirebound.model.Compressor` names, with its parameter.

    PowerSGD is torch's own hook (see `powersgd`) and terngrad-shared needs the other workers' scales to encode (see
    `terngrad`): neither is among these. Raises `InputError` for an unknown name.
    """
    from wirebound.techniques.compress import (
        dgc,
        ef_signsgd,
        gtopk,
        half,
        onebit,
        qsgd,
        randomk,
        signsgd,
        terngrad,
        topk,
    )

    share = chosen.parameter
    makers: dict[str, Callable[[], GradientCompressor]] = {
        "fp16": half.Fp16,
        "bf16": half.Bf16,
        "onebit": onebit.OneBit,
        "signsgd": signsgd.SignSgd,
        "ef-signsgd": ef_signsgd.EfSignSgd,
        "qsgd": lambda: qsgd.Qsgd(int(chosen.parameter), chosen.bucket or qsgd.BUCKET),
        "terngrad": terngrad.TernGrad,
        "randomk": lambda: randomk.RandomK(share),
        "topk": lambda: topk.TopK(share),
        "gtopk": lambda: gtopk.GTopK(share),
        "dgc": lambda: dgc.Dgc(share),
    }
    if chosen.name in ("powersgd", "terngrad-shared"):
        raise InputError(f"{chosen.name} cannot encode by itself: use hooks.register, which brings workers together")
    if chosen.name not in makers:
        raise unknown_name("compressor", chosen.name, makers)
    return makers[chosen.name]()

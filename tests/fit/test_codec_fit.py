"""Codecs from measured samples, and the bandwidth at which coding stops paying, against closed forms."""

import json
import math
from pathlib import Path

import pytest

from wirebound.errors import InputError
from wirebound.fit.codec import break_even, fit_codec
from wirebound.fit.codec_document import codec_document, load_codec
from wirebound.model import Cluster, Codec, Compressor, Link, Tensor, Workload, method_named
from wirebound.model.library import builtin_workload
from wirebound.simulate.compressors import COMPRESSORS, compressor_named, estimated_codec
from wirebound.simulate.step import simulate_step
from wirebound.study.record_codec import main, record_codecs
from wirebound.techniques.compress.compressor import compressor_of
from wirebound.techniques.compress.measure import measure_coding

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "codec_cpu_2core.json"
SIZES = [4**power for power in range(6, 13)]


def test_exact_times_give_back_their_codec():
    encode = [2e-5 + 3e-10 * size for size in SIZES]
    decode = [1e-5 + 5e-11 * size for size in SIZES]
    codec = fit_codec(SIZES, encode, decode).codec
    assert codec.encode_s == pytest.approx(2e-5, rel=1e-6)
    assert codec.encode_s_per_byte == pytest.approx(3e-10, rel=1e-6)
    assert codec.decode_s == pytest.approx(1e-5, rel=1e-6)
    assert codec.decode_s_per_byte == pytest.approx(5e-11, rel=1e-6)


def one_tensor(codec, workers=4, size=4_000_000):
    workload = Workload("one", 1, (Tensor("t", size, 0.01),), 0.05)
    method = method_named("bsp-a2a")
    compressor = Compressor("fp16", codec=codec)
    return workload, Cluster(workers, Link(1e9)), type(method)(**{**fields(method), "compressor": compressor})


def fields(method):
    return {name: getattr(method, name) for name in method.__dataclass_fields__}


@pytest.mark.parametrize("workers", [2, 4, 16])
def test_break_even_of_one_tensor_in_closed_form(workers):
    """A ring saves half of 2(P−1)/P·S/B; coding costs its four figures: equal at B = (P−1)/P·S / cost."""
    codec = Codec(1e-4, 2e-10, 3e-5, 1e-10)
    workload, cluster, method = one_tensor(codec, workers)
    cost = 1e-4 + 2e-10 * 4e6 + 3e-5 + 1e-10 * 4e6
    found = break_even(workload, cluster, method)
    assert found.bandwidth == pytest.approx((workers - 1) / workers * 4e6 / cost, rel=1e-6)
    assert found.statement == (
        f"fp16: above {found.bandwidth / 125e6:.3g} Gbps encoding costs more than it saves; below, compression saves"
        " time"
    )


def test_break_even_at_the_ends():
    assert math.isinf(break_even(*one_tensor(Codec())).bandwidth)
    never = break_even(*one_tensor(Codec(encode_s=1e9)))
    assert never.bandwidth == 0
    assert never.statement == "fp16: encoding costs more than it saves at every bandwidth"
    workload, cluster, _ = one_tensor(Codec())
    with pytest.raises(InputError, match="has no compressor"):
        break_even(workload, cluster, method_named("bsp-a2a"))


@pytest.mark.parametrize("text", ["fp16", "topk:0.01", "ef-signsgd", "powersgd:4"])
def test_a_network_on_either_side_of_break_even(text):
    workload, method = builtin_workload("resnet50"), method_named("wfbp-a2a")
    compressor = compressor_named(text)
    codec = estimated_codec(compressor, 900e9, 5e-6)
    chosen = type(method)(
        **{**fields(method), "compressor": Compressor(compressor.name, compressor.parameter, 0, codec)}
    )
    found = break_even(workload, Cluster(8, Link(1.0)), chosen)
    assert 0 < found.bandwidth < math.inf
    for factor, shorter in ((0.99, True), (1.01, False)):
        cluster = Cluster(8, Link(factor * found.bandwidth))
        assert (
            simulate_step(workload, cluster, chosen).iteration_s < simulate_step(workload, cluster, method).iteration_s
        ) == shorter


def test_measured_samples():
    samples = measure_coding(compressor_of(compressor_named("topk:0.1")), [4, 4096, 65_536], repetitions=2)
    assert [sample.size for sample in samples] == [4, 4, 4096, 4096, 65_536, 65_536]
    assert all(sample.encode_s > 0 and sample.decode_s > 0 for sample in samples)
    with pytest.raises(InputError, match="size 6 must be a multiple of 4"):
        measure_coding(compressor_of(compressor_named("fp16")), [6])


def test_a_recording_is_read_back(tmp_path, capsys):
    path = tmp_path / "codec.json"
    command = ["--out", str(path), "--compressor", "fp16", "--compressor", "topk:0.1", "--repetitions", "1"]
    assert main(command) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert list(document["codecs"]) == ["fp16", "topk:0.1"]
    for label, codec in document["codecs"].items():
        assert load_codec(path, label).encode_s_per_byte == codec["encode_s_per_byte"]
    assert "machine" in document
    assert "record: fp16" in capsys.readouterr().err


def test_what_a_recording_refuses(tmp_path, capsys):
    assert main(["--out", str(tmp_path / "codec.json"), "--compressor", "topc:0.1"]) == 2
    assert main(["--out", str(tmp_path / "none" / "codec.json")]) == 2
    assert main(["--out", str(tmp_path / "codec.json"), "--compressor", "powersgd:2"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "did you mean 'topk'" in lines[0]
    assert "does not exist" in lines[1]
    assert "powersgd cannot encode by itself" in lines[2]
    assert len(lines) == 3
    assert not list(tmp_path.iterdir())


def test_a_file_of_several_codecs(tmp_path):
    path = tmp_path / "codec.json"
    path.write_text(json.dumps(codec_document({"fp16": {"encode_s": 1e-5}})), encoding="utf-8")
    assert load_codec(path, "fp16") == Codec(1e-5)
    with pytest.raises(InputError, match=r"has no codec of topk:0\.1: choose one of fp16, or another file"):
        load_codec(path, "topk:0.1")
    with pytest.raises(InputError, match="has no codec of one compressor"):
        load_codec(path)
    path.write_text(json.dumps(codec_document([1])), encoding="utf-8")
    with pytest.raises(InputError, match="codecs must be an object"):
        load_codec(path, "fp16")


def test_the_recorded_codecs_follow_from_their_samples():
    document = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert document["machine"]["cores"] == 2
    names = {label.partition(":")[0] for label in document["codecs"]}
    assert names == set(COMPRESSORS) - {"powersgd", "terngrad-shared"}
    for label, recorded in document["codecs"].items():
        sizes, encode_s, decode_s = zip(*recorded["samples"], strict=True)
        codec = fit_codec(sizes, encode_s, decode_s).codec
        assert load_codec(RECORDED, label) == Codec(
            *(recorded[name] for name in ("encode_s", "encode_s_per_byte", "decode_s", "decode_s_per_byte"))
        )
        for name in ("encode_s", "encode_s_per_byte", "decode_s", "decode_s_per_byte"):
            assert getattr(codec, name) == pytest.approx(recorded[name], rel=1e-3, abs=1e-12)


def test_recording_nothing_measurable_is_refused():
    with pytest.raises(InputError, match="unknown compressor"):
        record_codecs(["zip"], [4096])

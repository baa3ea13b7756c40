"""PROFILE.json: the loader, the writer and the JSON Schema document say the same."""

import copy
import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

from wirebound.errors import InputError
from wirebound.profile.schema import load_profile, profile_document, profile_from_document, save_profile

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "data" / "profile.schema.json").read_text(encoding="utf-8"))

DOCUMENT = {
    "schema": "wirebound-profile",
    "version": 1,
    "minor": 1,
    "name": "two layers",
    "source": "made up for this test",
    "machine": {"system": "Linux", "cores": 2, "memory_bytes": 8.0e9, "governor": None, "battery": False},
    "batch_size": 32,
    "gradient_dtype": "fp32",
    "timing": "measured",
    "steps": 3,
    "forward_s": 0.01,
    "optimizer_s": 0.002,
    "forward_samples_s": [0.01, 0.011, 0.009],
    "backward_samples_s": [0.03, 0.031, 0.029],
    "batch_samples": [
        {"batch_size": 1, "forward_s": [0.002, 0.003], "backward_s": [0.005, 0.006]},
        {"batch_size": 32, "forward_s": [0.01], "backward_s": [0.03]},
    ],
    "tensors": [
        {
            "name": "head.weight",
            "bytes": 4000,
            "registration": 1,
            "gap_s": 0.01,
            "gap_spread_s": 0.001,
            "ready_spread": 0.02,
            "forward_s": 0.004,
            "ready_samples": [0.33, 0.34, 0.32],
            "shape": [10, 100],
        },
        {"name": "stem.weight", "bytes": 800, "registration": 0, "gap_s": 0.02},
    ],
    "hook_overhead": {"ratio": 1.01, "ratio_low": 0.99, "ratio_high": 1.02, "confidence": 0.95, "pairs": 20},
    "collectives": [
        {
            "collective": "ring-allreduce",
            "ranks": 2,
            "bytes": 1024,
            "median_s": 0.0003,
            "spread_s": 0.0001,
            "times_s": [0.0002, 0.0003, 0.0004],
            "backend": "gloo",
            "rate_Bps": 125e6,
        },
        {"collective": "ring-allreduce", "ranks": 2, "bytes": 2048, "median_s": 0.0004},
    ],
    "vector_add": [{"bytes": 1024, "seconds": 1e-6}],
    "warnings": ["another process was busy"],
    "device": "cuda",
    "clock": "cuda-events",
    "loading_samples_s": [0.001, 0.002, 0.001],
    "peak_memory": {"kind": "cuda-allocated", "bytes": 2_000_000, "before": 0},
    "ranks": [
        {
            "rank": 0,
            "forward_s": 0.01,
            "backward_s": 0.03,
            "optimizer_s": 0.002,
            "steps": 3,
            "loading_s": 0.001,
            "peak_bytes": 2_000_000,
        },
        {"rank": 1, "forward_s": 0.02, "backward_s": 0.05, "optimizer_s": 0.002, "steps": 3, "disturbed": True},
    ],
    "counters": [
        {
            "phase": "training",
            "rank": 0,
            "interval_s": 0.005,
            "time_s": [0.0, 0.005, 0.0101],
            "cpu_s": [0.0, 0.004, 0.004],
            "sent_bytes": [0, 0, 5000],
            "waiting_s": [0.0, 0.0001, 0.0001],
            "link_counter": "tcp",
            "rate_Bps": 25e6,
            "communication_start_s": [0.006],
            "communication_end_s": [0.01],
            "overhead": {"ratio": 1.02, "ratio_low": 0.99, "ratio_high": 1.1, "confidence": 0.97, "pairs": 9},
        },
        {"phase": "all-reduce", "rank": 1, "interval_s": 0.01, "time_s": [0.0, 0.01], "cpu_s": [0.0, 0.001]},
    ],
    "disturbed": True,
}


def changed(path: list[str | int], value: object) -> dict:
    """Return the document with one field replaced, or removed where the value is `...`."""
    document = copy.deepcopy(DOCUMENT)
    target = document
    for key in path[:-1]:
        target = target[key]
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return document


def test_round_trip(tmp_path):
    profile = profile_from_document(DOCUMENT)
    file = tmp_path / "profile.json"
    save_profile(profile, file)
    assert load_profile(file) == profile
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written == DOCUMENT
    jsonschema.Draft202012Validator(SCHEMA).validate(written)


def test_schema_document_is_itself_valid():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_workload_of_a_profile():
    workload = profile_from_document(DOCUMENT).workload()
    assert workload.size == 4800
    assert workload.ready_s == pytest.approx((0.01, 0.03))
    assert workload.compute_s == pytest.approx(0.042)
    assert workload.batch_size == 32
    assert workload.vector_add == ((1024, 1e-6),)
    assert [tensor.forward_s for tensor in workload.tensors] == [0.004, None]
    assert [tensor.shape for tensor in workload.tensors] == [(10, 100), None]


def test_a_shape_must_fit_its_bytes():
    with pytest.raises(InputError, match="has 4000 bytes, but its shape"):
        profile_from_document(changed(["tensors", 0, "shape", 1], 101)).workload()


BAD = [
    (["schema"], "something-else", "schema"),
    (["version"], 2, "version"),
    (["version"], "1", "version"),
    (["version"], ..., "version"),
    (["name"], ..., "name"),
    (["name"], 3, "name"),
    (["source"], None, "source"),
    (["machine"], [], "machine"),
    (["machine"], ..., "machine"),
    (["machine", "disks"], ["a"], "machine.disks"),
    (["batch_size"], 0, "batch_size"),
    (["batch_size"], 1.5, "batch_size"),
    (["batch_size"], True, "batch_size"),
    (["gradient_dtype"], "float", "gradient_dtype"),
    (["timing"], "guessed", "timing"),
    (["steps"], -1, "steps"),
    (["forward_s"], -0.1, "forward_s"),
    (["forward_s"], ..., "forward_s"),
    (["forward_s"], "0.1", "forward_s"),
    (["optimizer_s"], None, "optimizer_s"),
    (["backward_samples_s", 1], -1.0, "backward_samples_s[1]"),
    (["backward_samples_s"], 3, "backward_samples_s"),
    (["forward_samples_s", 0], "x", "forward_samples_s[0]"),
    (["batch_samples"], {}, "batch_samples"),
    (["batch_samples", 0, "batch_size"], 0, "batch_samples[0].batch_size"),
    (["batch_samples", 0, "forward_s"], [], "batch_samples[0].forward_s"),
    (["batch_samples", 1, "backward_s"], [], "batch_samples[1].backward_s"),
    (["batch_samples", 0, "forward_s", 1], 0, "batch_samples[0].forward_s[1]"),
    (["batch_samples", 1, "backward_s", 0], -1, "batch_samples[1].backward_s[0]"),
    (["tensors"], {}, "tensors"),
    (["tensors"], ..., "tensors"),
    (["tensors", 1], "stem", "tensors[1]"),
    (["tensors", 1, "bytes"], 0, "tensors[1].bytes"),
    (["tensors", 1, "bytes"], 12.5, "tensors[1].bytes"),
    (["tensors", 1, "registration"], ..., "tensors[1].registration"),
    (["tensors", 0, "gap_s"], -1e-9, "tensors[0].gap_s"),
    (["tensors", 0, "gap_s"], True, "tensors[0].gap_s"),
    (["tensors", 0, "ready_samples", 2], 1.5, "tensors[0].ready_samples[2]"),
    (["tensors", 0, "forward_s"], "x", "tensors[0].forward_s"),
    (["tensors", 0, "shape"], 10, "tensors[0].shape"),
    (["tensors", 0, "shape", 1], 0, "tensors[0].shape[1]"),
    (["tensors", 0, "shape", 0], 1.5, "tensors[0].shape[0]"),
    (["hook_overhead", "ratio"], 0, "hook_overhead.ratio"),
    (["hook_overhead", "pairs"], ..., "hook_overhead.pairs"),
    (["hook_overhead"], 1.0, "hook_overhead"),
    (["minor"], -1, "minor"),
    (["device"], 3, "device"),
    (["clock"], [], "clock"),
    (["loading_samples_s", 1], -1, "loading_samples_s[1]"),
    (["peak_memory", "kind"], "guessed", "peak_memory.kind"),
    (["peak_memory", "bytes"], 0, "peak_memory.bytes"),
    (["peak_memory", "before"], -1, "peak_memory.before"),
    (["peak_memory"], 5, "peak_memory"),
    (["ranks", 1, "forward_s"], ..., "ranks[1].forward_s"),
    (["ranks", 1, "steps"], 0, "ranks[1].steps"),
    (["ranks", 1, "disturbed"], 1, "ranks[1].disturbed"),
    (["ranks", 0, "peak_bytes"], 0, "ranks[0].peak_bytes"),
    (["counters", 0, "interval_s"], 0, "counters[0].interval_s"),
    (["counters", 0, "time_s"], ..., "counters[0].time_s"),
    (["counters", 0, "time_s"], [0.0], "counters[0].time_s"),
    (["counters", 0, "sent_bytes", 2], 1.5, "counters[0].sent_bytes[2]"),
    (["counters", 0, "rate_Bps"], 0, "counters[0].rate_Bps"),
    (["counters", 0, "communication_end_s", 0], -1, "counters[0].communication_end_s[0]"),
    (["counters", 0, "overhead", "pairs"], ..., "counters[0].overhead.pairs"),
    (["counters", 1, "phase"], ..., "counters[1].phase"),
    (["disturbed"], "yes", "disturbed"),
    (["collectives"], ..., "collectives"),
    (["collectives", 0, "median_s"], 0, "collectives[0].median_s"),
    (["collectives", 0, "median_s"], ..., "collectives[0].median_s"),
    (["collectives", 0, "ranks"], 0, "collectives[0].ranks"),
    (["collectives", 0, "times_s", 0], "a", "collectives[0].times_s[0]"),
    (["collectives", 0, "rate_Bps"], 0, "collectives[0].rate_Bps"),
    (["collectives", 0, "backend"], 5, "collectives[0].backend"),
    (["vector_add", 0, "bytes"], 0, "vector_add[0].bytes"),
    (["warnings"], "none", "warnings"),
    (["warnings"], [1], "warnings[0]"),
    (["tensors", 1, "bytes"], 10**18 + 1, "tensors[1].bytes"),
    (["collectives", 0, "bytes"], 10**400, "collectives[0].bytes"),
    (["batch_size"], 10**30, "batch_size"),
    (["batch_size"], 10**9 + 1, "batch_size"),
    (["tensors", 1, "bytes"], 10**11 + 1, "tensors[1].bytes"),
    (["collectives", 0, "bytes"], 10**11 + 1, "collectives[0].bytes"),
    (["collectives", 0, "ranks"], 10**9 + 1, "collectives[0].ranks"),
    (["vector_add", 0, "bytes"], 1e30, "vector_add[0].bytes"),
    (["vector_add", 0, "seconds"], 1e30, "vector_add[0].seconds"),
    (["forward_s"], 1e30, "forward_s"),
    (["optimizer_s"], 1.1e6, "optimizer_s"),
    (["forward_samples_s", 1], 1e30, "forward_samples_s[1]"),
    (["backward_samples_s", 1], 10**400, "backward_samples_s[1]"),
    (["loading_samples_s", 1], 1e30, "loading_samples_s[1]"),
    (["batch_samples", 0, "forward_s", 1], 1e30, "batch_samples[0].forward_s[1]"),
    (["batch_samples", 0, "backward_s", 1], 1e-300, "batch_samples[0].backward_s[1]"),
    (["tensors", 0, "gap_s"], 1e30, "tensors[0].gap_s"),
    (["tensors", 0, "gap_spread_s"], 1e30, "tensors[0].gap_spread_s"),
    (["tensors", 0, "forward_s"], 1e30, "tensors[0].forward_s"),
    (["collectives", 0, "median_s"], 1e30, "collectives[0].median_s"),
    (["collectives", 0, "median_s"], 1e-300, "collectives[0].median_s"),
    (["collectives", 0, "spread_s"], 1e30, "collectives[0].spread_s"),
    (["collectives", 0, "times_s", 0], 1e30, "collectives[0].times_s[0]"),
    (["ranks", 1, "backward_s"], 1e30, "ranks[1].backward_s"),
    (["ranks", 0, "loading_s"], 1e30, "ranks[0].loading_s"),
    (["counters", 0, "interval_s"], 1e30, "counters[0].interval_s"),
    (["counters", 0, "time_s", 2], 1e30, "counters[0].time_s[2]"),
    (["counters", 0, "communication_end_s", 0], 1e30, "counters[0].communication_end_s[0]"),
]


@pytest.mark.parametrize(("path", "value", "named"), BAD)
def test_loader_and_schema_reject_the_same(path, value, named):
    document = changed(path, value)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    with pytest.raises(InputError) as caught:
        profile_from_document(document, where="p.json")
    message = str(caught.value)
    assert message.startswith("p.json: ")
    assert named in message
    assert "\n" not in message


GOOD = [
    (["batch_size"], None),
    (["batch_size"], ...),
    (["batch_size"], 32.0),
    (["hook_overhead"], None),
    (["hook_overhead"], ...),
    (["tensors"], []),
    (["collectives"], []),
    (["vector_add"], ...),
    (["timing"], ...),
    (["backward_samples_s"], ...),
    (["forward_samples_s"], ...),
    (["batch_samples"], ...),
    (["batch_samples"], []),
    (["tensors", 0, "forward_s"], None),
    (["tensors", 0, "ready_samples"], ...),
    (["collectives", 0, "rate_Bps"], None),
    *((["collectives", 1], DOCUMENT["collectives"][0] | other) for other in ({"ranks": 3}, {"rate_Bps": 1e6})),
    (["collectives", 1], DOCUMENT["collectives"][0] | {"backend": "nccl"}),
    (["forward_s"], 0),
    (["machine"], {}),
    (["something_new"], {"a": [1]}),
    *(([name], ...) for name in ("minor", "device", "clock", "loading_samples_s", "peak_memory", "ranks", "counters")),
    (["minor"], 7),
    (["peak_memory"], None),
    (["peak_memory", "before"], ...),
    (["ranks", 0, "loading_s"], None),
    (["counters", 0, "overhead"], None),
    (["counters", 0, "link_counter"], None),
    (["disturbed"], ...),
]

#: What JSON Schema cannot say, and only the loader notices.
TORN = [
    (["ranks", 1, "rank"], 2, "ranks[1].rank is 2: it must be 1"),
    (["counters", 0, "cpu_s"], [0.0, 0.1], "counters[0].cpu_s has 2 values, time_s has 3"),
    (["counters", 0, "sent_bytes"], [0, 1], "counters[0].sent_bytes has 2 values, time_s has 3"),
    (["counters", 0, "sent_bytes"], [0, 9, 5], "counters[0].sent_bytes falls"),
    (["counters", 0, "time_s"], [0.0, 0.2, 0.1], "counters[0].time_s falls"),
    (["counters", 0, "communication_end_s"], [], "counters[0].communication_end_s must have one end"),
    (["counters", 0, "communication_end_s"], [0.001], "counters[0].communication_end_s must have one end"),
    (
        ["collectives", 0, "median_s"],
        0.003,
        "median_s is 0.003, but the median of its times_s is 0.0003",
    ),
    (
        ["collectives"],
        [{"collective": "x", "ranks": 2, "bytes": 8, "median_s": time} for time in (0.1, 0.2)],
        "collectives[1] has the 'x' of 2 ranks at 8 bytes, which collectives[0] has already",
    ),
]


@pytest.mark.parametrize(("path", "value", "named"), TORN)
def test_loader_rejects_parts_that_do_not_fit_together(path, value, named):
    with pytest.raises(InputError) as caught:
        profile_from_document(changed(path, value), where="p.json")
    assert named in str(caught.value)


@pytest.mark.parametrize(("path", "value"), GOOD)
def test_loader_and_schema_accept_the_same(path, value):
    document = changed(path, value)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    profile = profile_from_document(document)
    written = profile_document(profile)
    jsonschema.Draft202012Validator(SCHEMA).validate(written)
    assert profile_from_document(written) == profile


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "not whole JSON"),
        (b"\xff\xfe{", "not UTF-8"),
        (b"gradient,seconds\n", "not whole JSON"),
        (json.dumps(DOCUMENT).encode()[:-200], "not whole JSON"),
        (b"[]", "one JSON object"),
        (b"{}", "schema"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "thousands of digits"),
        (json.dumps(changed(["forward_s"], float("nan"))).encode(), "forward_s"),
        (json.dumps(changed(["optimizer_s"], float("inf"))).encode(), "optimizer_s"),
        (json.dumps(changed(["machine", "load"], float("nan"))).encode(), "machine.load"),
    ],
)
def test_malformed_files(tmp_path, content, part):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_profile(file)
    assert "bad.json" in str(caught.value)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(InputError, match="no such profile"):
        load_profile(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        load_profile(tmp_path)
    with pytest.raises(InputError, match="is a folder"):
        save_profile(profile_from_document(DOCUMENT), tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        save_profile(profile_from_document(DOCUMENT), tmp_path / "nowhere" / "p.json")


def test_a_bad_profile_leaves_the_old_file(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text("precious", encoding="utf-8")
    bad = profile_from_document(changed(["forward_s"], 0.0))
    object.__setattr__(bad, "forward_s", float("nan"))
    with pytest.raises(InputError, match="forward_s"):
        save_profile(bad, file)
    assert file.read_text(encoding="utf-8") == "precious"
    assert list(tmp_path.iterdir()) == [file]


def test_a_profile_without_tensors_is_no_workload():
    with pytest.raises(InputError, match="no gradient tensors"):
        profile_from_document(changed(["tensors"], [])).workload()
    with pytest.raises(InputError, match="batch size"):
        profile_from_document(changed(["batch_size"], None)).workload()


def test_a_step_that_computes_nothing_is_no_workload():
    document = changed(["forward_s"], 0)
    document["optimizer_s"] = 0
    for tensor in document["tensors"]:
        tensor["gap_s"] = 0
    with pytest.raises(InputError, match=r"'two layers': its compute time, .* is 0 s: it must be"):
        profile_from_document(document).workload()
    endless = dataclasses.replace(profile_from_document(document), forward_s=1e308, optimizer_s=1e308)
    with pytest.raises(InputError, match="is inf s: it must be finite"):
        endless.workload()


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    file = tmp_path / "p.json"
    file.write_text(json.dumps(DOCUMENT), encoding="utf-8-sig")
    assert load_profile(file) == profile_from_document(DOCUMENT)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (["name"], "name"),
        (["tensors", 1, "name"], "tensors[1].name"),
        (["warnings", 0], "warnings[0]"),
        (["machine", "system"], "machine.system"),
    ],
)
def test_halves_of_surrogate_pairs_are_named(path, named):
    with pytest.raises(InputError, match="halves of surrogate pairs") as caught:
        profile_from_document(json.loads(json.dumps(changed(path, "\ud800"))))
    assert f"field {named} is '\\ud800'" in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("registration", 1), ("name", "head.weight")])
def test_a_parameter_is_there_once(name, value):
    with pytest.raises(InputError) as caught:
        profile_from_document(changed(["tensors", 1, name], value))
    assert f"field tensors[1].{name} is {value!r}, which tensors[0] has already" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "again"),
    [
        ("timing", '"timing": "measured"'),
        ("gap_s", '"gap_s": 0.02'),
        ("median_s", '"median_s": 0.0004'),
        ("cores", '"cores": 2'),
    ],
)
def test_a_field_that_stands_twice_is_refused(tmp_path, field, again):
    text = json.dumps(DOCUMENT)
    assert text.count(again) == 1
    file = tmp_path / "p.json"
    file.write_text(text.replace(again, f"{again}, {again}"), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_profile(file)
    assert str(caught.value) == f"{file}: the field {field!r} stands twice in one object: keep one of them"


def test_batches_must_rise():
    with pytest.raises(InputError, match=r"field batch_samples\[1\].batch_size is 1, but 1 comes before it"):
        profile_from_document(changed(["batch_samples", 1, "batch_size"], 1))

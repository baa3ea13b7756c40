"""Traces in the states that people report: cut off, badly escaped, not quite JSON."""

import gzip
import json
import zlib

import pytest

from wirebound.errors import InputError
from wirebound.profile.traces import events as events_module
from wirebound.profile.traces import source as source_module
from wirebound.profile.traces.events import TraceFile
from wirebound.profile.traces.kineto import read_kineto
from wirebound.profile.traces.kineto_summary import summarize
from wirebound.profile.traces.repair import repaired

from .tracefiles import ddp_events, kineto_document, write

GOOD = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 100, "dur": 5}


def text_with(event: str, *, after: int = 3) -> str:
    """A trace of two good events, this text, and more good events."""
    good = json.dumps(GOOD)
    return '{"traceEvents": [\n' + ",\n".join([good, good, event, *[good] * after]) + '\n], "traceName": "t"}'


def read(path):
    file = TraceFile(path)
    return list(file.events()), file


DAMAGED = {
    "a missing opening quote": r'{"ph": "X", "cat": "kernel", "name": "odd", "pid": 0, "tid": 0", "ts": 1, "dur": 1}',
    "unescaped backslashes": r'{"ph": "X", "cat": "kernel", "name": "C:\Users\me\train.py(3): f", "ts": 1, "dur": 1}',
    "unescaped quotes": r'{"ph": "X", "cat": "kernel", "name": "say "hi", you", "ts": 1, "dur": 1, "args": {"a": "b"}}',
}


@pytest.mark.parametrize(("damage", "event"), DAMAGED.items())
def test_a_damaged_event_is_repaired(damage, event, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text_with(event), encoding="utf-8")
    events, file = read(path)
    assert len(events) == 6
    offset = path.read_bytes().index(event.encode())
    assert file.warnings == [f"1 event(s) repaired that had {damage}, the first at byte {offset}"]
    assert events[2]["ts"] == 1
    assert file.header == {"traceName": "t"}


def test_what_the_repairs_make_of_names():
    assert repaired(DAMAGED["a missing opening quote"])[0]["tid"] == "0"
    assert repaired(DAMAGED["unescaped backslashes"])[0]["name"] == r"C:\Users\me\train.py(3): f"
    assert repaired(DAMAGED["unescaped quotes"])[0]["name"] == 'say "hi", you'
    assert repaired(r'{"ph": "X", "name": "C:\dir\", "ts": 1}')[0]["name"] == "C:\\dir\\"
    assert repaired('{"ph": "X", "name": ]}') is None


def test_raw_line_breaks_and_control_characters_are_let_through(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text_with('{"ph": "X", "name": "two\nlines\t\x01", "cat": "kernel", "ts": 1, "dur": 1}'), "utf-8")
    events, file = read(path)
    assert events[2]["name"] == "two\nlines\t\x01"
    assert file.warnings == []


def test_bytes_that_are_no_utf8(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(
        text_with('{"ph": "X", "name": "caf@", "cat": "kernel", "ts": 1, "dur": 1}').encode().replace(b"@", b"\xe9")
    )
    events, file = read(path)
    assert len(events) == 6
    assert "not UTF-8" in file.warnings[0]
    assert summarize(read_kineto(path)).computation_us > 0


def test_a_header_with_a_windows_path(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(r'{"traceName": "C:\Users\me\t.json", "traceEvents": [' + json.dumps(GOOD) + "]}", encoding="utf-8")
    events, file = read(path)
    assert len(events) == 1
    assert file.header["traceName"] == r"C:\Users\me\t.json"
    assert "damaged text at byte 14" in file.warnings[0]


def test_an_event_beyond_repair_is_left_out_with_its_place(tmp_path):
    event = '{"ph": "X", "name": ]]]}'
    path = tmp_path / "t.json"
    path.write_text(text_with(event), encoding="utf-8")
    events, file = read(path)
    assert len(events) == 5
    offset = path.read_bytes().index(event.encode())
    assert file.warnings == [f"1 event(s) beyond repair left out, the first at byte {offset}"]


def test_too_many_events_beyond_repair_are_an_error(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text_with(",\n".join(['{"ph": "X", "name": ]]]}'] * 20)), encoding="utf-8")
    with pytest.raises(InputError, match="more than 10 events are not JSON, the first at byte"):
        read(path)


@pytest.mark.parametrize("cut", [1, 30, 200, 1000, 5000])
@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_off_trace_gives_what_is_there(cut, packed, tmp_path):
    whole = kineto_document(ddp_events())
    data = json.dumps(whole).encode()
    before = len(list(TraceFile(write(tmp_path / "whole.json", whole)).events()))
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(data[:-cut]) if packed else data[:-cut])
    events, file = read(path)
    assert 0 < len(events) <= before
    assert any("is cut off at byte" in line for line in file.warnings)


@pytest.mark.parametrize("missing", [1, 8, 100])
def test_a_cut_off_gzip_file_gives_what_is_there(missing, tmp_path):
    data = gzip.compress(json.dumps(kineto_document(ddp_events())).encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(data[:-missing])
    events, file = read(path)
    assert events
    assert any("cut-off gzip" in line for line in file.warnings)


def test_a_damaged_gzip_file_gives_what_comes_before(tmp_path):
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(json.dumps(kineto_document(ddp_events(60))).encode()[:50_000])
    data += packer.flush(zlib.Z_FULL_FLUSH)  # ends a block at a whole byte; there is no block of the kind that follows
    path = tmp_path / "t.json.gz"
    path.write_bytes(data + b"\xff" * 200)
    events, file = read(path)
    assert 0 < len(events) < len(ddp_events(60))
    assert any("damaged gzip" in line for line in file.warnings)
    path.write_bytes(data[:12] + b"\xff" * 40)
    with pytest.raises(InputError, match="it is empty; is damaged gzip"):
        read(path)


def test_several_gzip_members_are_one_file(tmp_path):
    data = json.dumps(kineto_document(ddp_events())).encode()
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(data[:500]) + gzip.compress(data[500:]) + b"\0" * 10)
    events, file = read(path)
    assert len(events) == len(ddp_events())
    assert file.warnings == []


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is not a trace in JSON: it is empty"),
        (b"hello", "it begins with 'h'"),
        (b"{}", "has no list traceEvents"),
        (
            b'{"schema": "wirebound-profile"}',
            "has no list traceEvents, so it is not a trace (it is a wirebound-profile)",
        ),
        (b'{"a": [1, 2, }, "b": "' + b"x" * 99 + b'"}', "is not JSON at byte 6: Expecting value"),
        (b"{1: 2}", "is not JSON at byte 2: a field's name is not a text"),
        (b"\xff\xfe{\0}\0", "is not UTF-8 text"),
        (b'{"a": ' + b"[" * 100_000, "is not JSON at byte 6: it is nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "is not JSON at byte 6: it has a number of thousands of digits"),
        (b'{"traceEvents": [{"ts": ' + b"9" * 10_000 + b"}]}", "it has a number of thousands of digits"),
    ],
)
def test_what_is_no_trace_is_one_line_with_its_place(content, part, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert part in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_pieces_of_any_length_give_the_same_events(chunk, tmp_path, monkeypatch):
    document = kineto_document(ddp_events())
    document["traceEvents"][3]["name"] = "größer → 😀 \\u00e9"
    whole = list(TraceFile(write(tmp_path / "t.json", document)).events())
    assert whole == document["traceEvents"]
    monkeypatch.setattr(source_module, "CHUNK", chunk)
    monkeypatch.setattr(events_module, "_EDGE", 16)
    file = TraceFile(tmp_path / "t.json")
    assert list(file.events()) == whole
    assert file.warnings == []
    assert file.header["traceName"] == document["traceName"]
    packed = TraceFile(write(tmp_path / "t.json.gz", document))
    assert list(packed.events()) == whole


def test_flows_are_passed_over_and_nothing_else(tmp_path):
    events = ddp_events()
    events.insert(5, {"ph": "s", "id": 1, "name": "a}b{", "cat": "ac2g", "ts": 1})
    path = write(tmp_path / "t.json", kineto_document(events))
    kept = list(TraceFile(path, skip_flows=True).events())
    assert [e for e in kept if e["ph"] == "X"] == [e for e in events if e["ph"] == "X"]

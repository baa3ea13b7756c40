"""CODEC.json is read, and what is wrong with one is said in one line."""

import json

import pytest

from wirebound.errors import InputError
from wirebound.fit.codec_document import load_codec
from wirebound.model import Codec

WHOLE = {"schema": "wirebound-codec", "version": 1, "encode_s": 1e-5, "encode_s_per_byte": 2e-11, "decode_s": 0}


def test_a_codec_is_read(tmp_path):
    path = tmp_path / "codec.json"
    path.write_text(json.dumps(WHOLE), encoding="utf-8")
    assert load_codec(path) == Codec(1e-5, 2e-11, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a codec"),
        (json.dumps({"schema": "wirebound-fit"}), "is not a codec"),
        (json.dumps(WHOLE | {"version": 2}), "has codec version 2: this program reads version 1"),
        (json.dumps(WHOLE | {"decode_s": -1}), "decode_s = -1 must be seconds"),
        (json.dumps(WHOLE | {"decode_s": True}), "decode_s = True must be seconds"),
        (json.dumps(WHOLE | {"decode_s": float("nan")}), "decode_s = nan must be seconds"),
        (json.dumps({"schema": "wirebound-codec", "version": 1}), "give --free-codec instead"),
        (json.dumps(WHOLE)[:-1] + ', "decode_s": 1}', "the field 'decode_s' stands twice in one object: keep one"),
    ],
)
def test_refused(tmp_path, text, complaint):
    path = tmp_path / "codec.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as error:
        load_codec(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(InputError, match="does not exist: write"):
        load_codec(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        load_codec(tmp_path)

"""What the commands that record something take, say and return."""

import pytest

from wirebound.errors import InputError, WireboundError
from wirebound.profile.recording import recording_parser, run_recording, tell


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (InputError("no such rate"), 2, "record: error: no such rate\n"),
        (WireboundError("the disk is full"), 1, "record: failed: the disk is full\n"),
        (KeyboardInterrupt(), 130, "record: interrupted\n"),
    ],
)
def test_what_goes_wrong_is_one_line(raised, code, said, capsys):
    def record():
        raise raised

    assert run_recording("record", record) == code
    assert capsys.readouterr() == ("", said)


def test_warnings_and_progress(capsys):
    def record():
        tell("the first part")
        return ["a busy machine"]

    assert run_recording("record", record) == 0
    assert capsys.readouterr() == ("", "record: the first part\nrecord: warning: a busy machine\n")


def test_the_command_line_names_its_module(capsys):
    parser = recording_parser("wirebound.some.module", "What it does.\n\n    As it stands.", out="FILE", what="it goes")
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    shown = capsys.readouterr().out
    assert "python -m wirebound.some.module" in shown
    assert "    As it stands." in shown
    assert parser.parse_args(["--out", "x"]).out.name == "x"

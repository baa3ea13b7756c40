"""The program's own entry point, called in this process."""

import json

import pytest

from wirebound.cli import main


@pytest.fixture
def wirebound(capsys):
    """Run the command line: (exit code, standard output, standard error)."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(list(map(str, arguments)))
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


@pytest.fixture
def document(wirebound):
    """Run a command with --json and return its one document."""

    def run(*arguments):
        code, out, err = wirebound(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run

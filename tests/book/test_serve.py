"""`wirebound serve` and `wirebound book` from the command line."""

import json
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from wirebound.errors import InputError
from wirebound.study.project import Project
from wirebound.study.serve import address_of, open_server

from .standin import make_project, write_run


def _wirebound(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wirebound", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project", ["fit_model"])


def test_serves_the_book_on_this_machine_only(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello", encoding="utf-8")
    server = open_server(tmp_path, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert address_of(server).startswith("http://127.0.0.1:")
        assert server.server_address[0] == "127.0.0.1"
        with urllib.request.urlopen(address_of(server)) as answer:
            assert answer.read() == b"hello"
            assert answer.headers["Cache-Control"] == "no-cache"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_missing_book_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no book in .*: run `wirebound book` first"):
        open_server(tmp_path, 0)


def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello", encoding="utf-8")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} cannot be used .*: choose another with --port"):
            open_server(tmp_path, port)


def test_port_out_of_range_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello", encoding="utf-8")
    with pytest.raises(InputError, match="port 70000 does not exist"):
        open_server(tmp_path, 70000)


@pytest.mark.parametrize("command", ["book", "serve"])
def test_help_has_an_example(tmp_path: Path, command: str) -> None:
    answer = _wirebound(tmp_path, command, "--help")
    assert answer.returncode == 0
    assert f"Example: wirebound {command}" in answer.stdout
    assert "--json" in answer.stdout


def test_users_mistakes_are_one_line_and_code_2(project: Project) -> None:
    for arguments in (["book", "--name", "none"], ["serve", "--no-open"], ["serve", "--port", "x"]):
        answer = _wirebound(project.root, *arguments)
        assert answer.returncode == 2, arguments
        assert answer.stdout == ""
        assert len(answer.stderr.splitlines()) == 1


def test_failed_build_is_one_line_and_code_1(project: Project) -> None:
    write_run(project, ["fit_model", "extra"])
    answer = _wirebound(project.root, "book")
    assert answer.returncode == 1
    assert answer.stderr.splitlines() == [
        "wirebound: failed: the chapter 'extra' of the run 'quick' is not listed in book/_toc.yml"
    ]


def test_book_prints_one_document(standin_project: Project, standin_book: Path) -> None:
    answer = _wirebound(standin_project.root, "book", "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["rebuilt"] is False
    assert Path(document["folder"]) == standin_book
    assert answer.stderr == "nothing changed: the book is up to date\n"

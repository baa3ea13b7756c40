"""Files are written whole or not at all, and nothing but a regular file is ever replaced."""

import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

from wirebound.errors import InputError, WireboundError
from wirebound.files import require_writable, write_text

posix = pytest.mark.skipif(os.name == "nt", reason="pipes, links and modes are different on Windows")


@posix
def test_a_pipe_is_written_through(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert require_writable(pipe) == pipe
    write_text(pipe, "µ\n")
    reader.join()
    assert read == ["µ\n".encode()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@posix
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs paths of open streams")
def test_a_redirected_stream_is_written_through(tmp_path):
    out = tmp_path / "out"
    code = "from pathlib import Path\nfrom wirebound.files import write_text\n"
    code += "write_text(Path('/proc/self/fd/1'), 'first\\n')"
    with out.open("wb") as stream:
        inode = os.fstat(stream.fileno()).st_ino
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert out.read_text(encoding="utf-8") == "first\n"
    assert out.stat().st_ino == inode
    assert list(tmp_path.iterdir()) == [out]


@posix
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to(target)
    write_text(link, "new")  # the target need not exist yet
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"
    write_text(link, "newer")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "newer"
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(InputError, match="leads to itself"):
        write_text(circle, "new")


@posix
def test_an_older_file_keeps_its_mode(tmp_path):
    file = tmp_path / "file"
    write_text(file, "old")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o640)
    write_text(file, "new")
    assert (file.read_text(encoding="utf-8"), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o640)


def test_what_is_protected_is_named(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("old", encoding="utf-8")
    # the administrator may write everywhere, so the answer of the system is made up
    real = os.access
    for protected, said in ((file, "is write-protected"), (tmp_path, "cannot be written to: choose another")):
        monkeypatch.setattr(os, "access", lambda path, mode, locked=protected: path != locked and real(path, mode))
        with pytest.raises(InputError, match=said) as caught:
            write_text(file, "new")
        assert str(file) in str(caught.value)
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


@posix
def test_a_file_too_large_keeps_the_old_one(tmp_path):
    file = tmp_path / "file"
    file.write_text("old", encoding="utf-8")
    code = f"""if True:
        import resource
        from pathlib import Path
        from wirebound.errors import InputError, WireboundError
        from wirebound.files import write_text
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_text(Path({str(file)!r}), "x" * 2000)
        except WireboundError as error:
            assert not isinstance(error, InputError)
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == f"{file} could not be written: {os.strerror(errno.EFBIG)}; what was there is unchanged\n"
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_names_and_text_that_cannot_be(tmp_path):
    for path, said in ((type(tmp_path)(""), "the name is empty, or"), (tmp_path / "no" / "file", "does not exist")):
        with pytest.raises(InputError, match=said):
            write_text(path, "new")
    with pytest.raises(InputError, match="no text"):
        write_text(tmp_path / "file", "\ud800")
    with pytest.raises(WireboundError, match="could not be written"):
        write_text(tmp_path / ("n" * 300), "new")
    write_text(tmp_path / ("n" * 250), "new")
    assert len(list(tmp_path.iterdir())) == 1

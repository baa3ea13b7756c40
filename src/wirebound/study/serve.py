"""Show the finished book on this machine."""

import functools
import http.server
import webbrowser
from pathlib import Path

from wirebound.errors import InputError

HOST = "127.0.0.1"


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a page asks for dozens of files."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # a book that was rebuilt is shown at once
        super().end_headers()


def open_server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """Return a server of the book in `folder` on this machine only; port 0 takes a free one.

    Raises `InputError` when there is no book there or the port is in use.
    """
    if not (folder / "index.html").is_file():
        raise InputError(f"there is no book in {folder}: run `wirebound book` first")
    if not 0 <= port <= 65535:
        raise InputError(f"port {port} does not exist: use one from 1 to 65535, such as 8000")
    handler = functools.partial(_QuietHandler, directory=str(folder))
    try:
        return _Server((HOST, port), handler)
    except OSError as error:
        raise InputError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from None


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False  # on Windows it would share a port that is in use


def serve_forever(server: http.server.ThreadingHTTPServer, *, open_browser: bool) -> None:
    """Serve until Ctrl-C."""
    if open_browser:
        webbrowser.open(address_of(server))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def address_of(server: http.server.ThreadingHTTPServer) -> str:
    """Return the address to open in a browser."""
    return f"http://{HOST}:{server.server_port}/"

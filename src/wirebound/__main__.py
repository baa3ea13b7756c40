"""`python -m wirebound`, and the command `wirebound`: an interrupt before or after the command is one line as well.

While modules are imported its exception could come out as another one, or not at all: the process ends on the spot.
"""

import os


def main() -> None:
    """Run the command line; exits with its code."""
    try:
        import atexit
        import signal

        # Where interrupts are ignored, they stay so.
        own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if own:
            signal.signal(signal.SIGINT, _end)
            # Runs last: what the interpreter then clears away is not part of the command.
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        from wirebound.cli import main as run

        try:
            if own:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            run()
        finally:
            if own:
                signal.signal(signal.SIGINT, _end)
    except KeyboardInterrupt:
        _end()


def _end(*_: object) -> None:
    """Say that the program was interrupted, of several ranks the first one, and end it; also a handler of signals."""
    try:
        if os.environ.get("RANK", "0") == "0":
            os.write(2, b"wirebound: interrupted\n")
    finally:  # also where it was started without standard error
        os._exit(130)


if __name__ == "__main__":
    main()

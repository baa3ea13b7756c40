"""`python -m wirebound`, and the command `wirebound`: also an interrupt while it is still being imported is told."""

import sys


def main() -> None:
    """Run the command line; exits with its code."""
    try:
        from wirebound.cli import main as run
    except KeyboardInterrupt:
        print("wirebound: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()

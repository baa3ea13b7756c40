"""Train by federated learning as the book's chapter shows it, and record what it gives.

    python -m wirebound.study.record_federated --out FEDERATED.json [--seconds 240] [--processes 2]

Runs that the file has already are kept, so that a recording can be made in pieces; all of it takes about six minutes
on two cores. Accuracies are the same for the same versions and kind of processor; times are this machine's.
"""

import sys

from wirebound.errors import InputError
from wirebound.files import require_writable, write_json
from wirebound.profile.recording import recording_parser, run_recording, tell


def main(arguments: list[str] | None = None) -> int:
    """Record into a file; returns the exit code."""
    parser = recording_parser("wirebound.study.record_federated", __doc__, out="FEDERATED.json", what="the runs go")
    parser.add_argument("--seconds", type=float, help="begin no further runs after so many seconds")
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time (default 1)")
    options = parser.parse_args(arguments)

    def record_all() -> list[str]:
        from wirebound.study.federated_plan import PLAN, Planned
        from wirebound.study.federated_runs import add_runs, federated_document
        from wirebound.study.inputs import read_json

        if options.processes < 1:
            raise InputError(f"--processes {options.processes} must be at least 1")
        require_writable(options.out)
        document = read_json(options.out) if options.out.exists() else federated_document()
        if not isinstance(document, dict):
            raise InputError(f"{options.out} is there but is no recording: choose another file")

        def keep(done: Planned) -> None:
            write_json(options.out, document)  # after each run: a recording that is stopped loses nothing
            tell(f"{done.task}, α = {done.alpha}, {done.method}, seed {done.seed}")

        missing = add_runs(document, PLAN, processes=options.processes, seconds=options.seconds, tell=keep)
        write_json(options.out, document)
        return [f"{missing} runs are still missing: run the same command again"] if missing else []

    return run_recording("record", record_all)


if __name__ == "__main__":
    sys.exit(main())

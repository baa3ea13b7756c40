"""Do the tests notice a wrong rule? Breaks the engine one rule at a time and runs the second implementation and laws.

    python -m tests.second.mutate             all mutants, a few minutes
    python -m tests.second.mutate credit      those whose name contains a word

Each mutant is one edit in a copy of the package in a temporary folder. A mutant that no test notices survives and is
listed; the exit status is then 1. First the tests must be green with the engine as it is. Edits that change no result
are not mutants: `EQUIVALENT` names them with the reason.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .mutants import EQUIVALENT, MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
#: What must turn red: fast tests first, since the first failure ends the run.
TESTS = ("tests/second/test_engines_agree.py", "tests/second/test_stages_agree.py")
TESTS += ("tests/second/test_collectives_agree.py", "tests/laws")
#: Another order of the operands, and no other result.
AS_IT_IS = Mutant("as it is", "schedules.py", "held >= bound", "bound <= held")


def survives(mutant: Mutant, tests=TESTS, *, examples: str = "1") -> bool:
    """Whether these tests stay green with the mutant in place of the engine."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src" / "wirebound"
        shutil.copytree(ROOT / "src" / "wirebound", copy, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "data" / "published", Path(folder) / "data" / "published")
        shutil.copy(ROOT / "data" / "datapackage.json", Path(folder) / "data")
        file = copy / "simulate" / mutant.file
        source = file.read_text(encoding="utf-8")
        found = source.count(mutant.old)
        if found != mutant.count:
            raise ValueError(f"mutant {mutant.name}: {mutant.old!r} stands {found} times in {mutant.file}")
        file.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(copy.parent), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "WIREBOUND_SHRINK": "0",
            "WIREBOUND_EXAMPLES": examples,
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if run.returncode not in (0, 1):  # 1: a test failed; anything else is no verdict
            raise RuntimeError(f"mutant {mutant.name}: pytest ended with {run.returncode}\n{run.stdout}{run.stderr}")
        return run.returncode == 0


def main(words: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.name for word in words)]
    survivors = []
    if not survives(AS_IT_IS):
        print("the tests fail with the engine as it is: nothing can be said about mutants")
        return 1
    for number, mutant in enumerate(chosen, start=1):
        verdict = "survives" if survives(mutant) else "noticed"
        print(f"{number:3}/{len(chosen)}  {verdict:8}  {mutant.name}  ({mutant.file})", flush=True)
        survivors += [mutant.name] if verdict == "survives" else []
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed; survivors: {', '.join(survivors) or 'none'}")
    for edit, reason in EQUIVALENT.items():
        print(f"no mutant: {edit}: {reason}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

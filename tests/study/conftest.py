"""A toy project that has been run once, shared by the tests of a module."""

import os
from collections.abc import Iterator

import pytest
from toy_study import ToyRun, write_toy_project


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyRun]:
    root = tmp_path_factory.mktemp("toy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
        run = ToyRun(write_toy_project(root))
        run.run()
        yield run

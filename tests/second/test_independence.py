"""The second implementation is worth something only as long as it shares no rule with the first."""

import ast
from pathlib import Path

HERE = Path(__file__).parent
#: Modules that hold no rule of the second implementation: they put the two side by side.
SIDE_BY_SIDE = {"compare.py"}
NOUNS = {"wirebound.model", "wirebound.model.library", "wirebound.errors"}


def package_modules_named_in(path):
    """Every module of the package that a file imports or names in a string."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module)
            if node.module == "wirebound":
                names.update(f"wirebound.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module",
            "__import__",
        ):
            names.update(arg.value for arg in node.args if isinstance(arg, ast.Constant))
    return {name for name in names if name.split(".")[0] == "wirebound"}


def test_the_second_implementation_imports_nouns_only():
    modules = [
        path for path in HERE.glob("*.py") if not path.name.startswith("test_") and not path.name.startswith("muta")
    ]
    assert {"engine.py", "collectives.py", "fusion.py", "transport.py"} <= {path.name for path in modules}
    for path in modules:
        if path.name not in SIDE_BY_SIDE:
            assert package_modules_named_in(path) <= NOUNS, path.name


def test_the_second_implementation_borrows_no_rule_from_a_noun():
    """Properties of the nouns that compute something are written again, too (`job.py`)."""
    computed = {"ready_s", "backward_s", "compute_s", "forward_gaps_s", "effective_bandwidth", "workers"}
    engine = ("job.py", "wires.py", "exchange.py", "fusion.py", "engine.py", "transport.py")
    for name in engine:
        tree = ast.parse((HERE / name).read_text(encoding="utf-8"))
        used = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("workload", "cluster", "link")
        }
        assert not used & computed, name


def test_the_guard_sees_an_import(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from wirebound.simulate.step import simulate_step\n", encoding="utf-8")
    assert package_modules_named_in(file) == {"wirebound.simulate.step"}

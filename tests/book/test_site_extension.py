"""What the book's Sphinx extension does to signatures, and where MathJax comes from."""

import pytest

from wirebound.study.site_extension import MATHJAX_PARTS, mathjax_folder, shorten_defaults


@pytest.mark.parametrize(
    ("signature", "shown"),
    [
        ("()", "()"),
        ("(a: int, b: str = 'x') -> None", "(a: int, b: str = 'x') -> None"),
        ("(root: Path = PosixPath('/some/long/folder/of/a/machine'))", "(root: Path = ...)"),
        (
            "(rows=(Row(name='a', value=1), Row(name='b', value=2)), *, x: dict[str, int] = {'a': 1})",
            "(rows=..., *, x: dict[str, int] = {'a': 1})",
        ),
        ("(text: str = 'a, b = (', n: int = 3)", "(text: str = 'a, b = (', n: int = 3)"),
        ("(kind: Literal['a', 'b', 'c', 'd', 'e', 'f', 'g'], n: int)",) * 2,
        ("(function=<function a_function_with_a_name at 0x7f00>, n=1)", "(function=..., n=1)"),
    ],
)
def test_long_defaults_are_not_printed(signature: str, shown: str) -> None:
    assert shorten_defaults(signature) == shown


def test_mathjax_is_installed_with_all_its_parts() -> None:
    for part in MATHJAX_PARTS:
        assert (mathjax_folder() / part).exists(), part

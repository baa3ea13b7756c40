"""What a chapter is: its parameters, what it reads and writes, and what data it uses."""

from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.errors import InputError
from wirebound.study.parameters import Parameter, suggest

#: Every chapter writes this one; a chapter's own list of artifacts leaves it out.
RESULTS = "results.json"


@dataclass(frozen=True, slots=True)
class Chapter:
    """One notebook ``notebooks/NAME.ipynb``.

    `reads` are artifacts of earlier chapters, as ``CHAPTER/FILE``; `writes` are its own, as ``FILE``, which later
    chapters may read beside ``results.json``. `data` are files, folders or patterns such as ``recorded/testbed_*.json``
    below the project's ``data/``. A chapter that `uses_live` shows this machine's profile where the run has one.
    """

    number: int
    name: str
    title: str
    parameters: tuple[Parameter, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    uses_live: bool = False

    @property
    def products(self) -> tuple[str, ...]:
        """All files that the chapter must have written to ``artifacts/NAME/`` when it ends."""
        return (RESULTS, *(name for name in self.writes if name != RESULTS))

    @property
    def upstream(self) -> tuple[str, ...]:
        """The chapters whose artifacts it reads."""
        return tuple(dict.fromkeys(address.split("/", 1)[0] for address in self.reads))


def chapter_named(chapters: Sequence[Chapter], name: str) -> Chapter:
    """Return one chapter; raises `InputError` with the closest name for an unknown one."""
    for chapter in chapters:
        if chapter.name == name:
            return chapter
    names = [chapter.name for chapter in chapters]
    raise InputError(f"unknown chapter {name!r}{suggest(name, names) or ':'} there are {', '.join(names)}")


def with_ancestors(chapters: Sequence[Chapter], name: str) -> tuple[Chapter, ...]:
    """Return the chapter `name` and all chapters that it builds on, in reading order."""
    needed = {chapter_named(chapters, name).name}
    for chapter in reversed(chapters):
        if chapter.name in needed:
            needed.update(chapter.upstream)
    return tuple(chapter for chapter in chapters if chapter.name in needed)


def check_registry(chapters: Sequence[Chapter]) -> None:
    """Raise `InputError` unless names are unique and every artifact read is written by an earlier chapter."""
    earlier: dict[str, Chapter] = {}
    parameter_names = {parameter.name for chapter in chapters for parameter in chapter.parameters}
    for chapter in chapters:
        if chapter.name in earlier or chapter.name in parameter_names:
            raise InputError(f"chapter {chapter.name!r}: the name is also that of another chapter or a parameter")
        if len({parameter.name for parameter in chapter.parameters}) < len(chapter.parameters):
            raise InputError(f"chapter {chapter.name!r} declares a parameter twice")
        for address in chapter.reads:
            writer, _, file = address.partition("/")
            if writer not in earlier or file not in earlier[writer].products:
                raise InputError(f"chapter {chapter.name!r} reads {address}, which no earlier chapter writes")
        earlier[chapter.name] = chapter

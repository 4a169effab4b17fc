"""How much an installation takes on the disk, package by package, and what each extra adds; read from this environment.

    python -m benchmarks.packaging.sizes

What is installed here is followed from `sottovoce`'s own requirements, so other packages of the environment do not
count. An extra that is not installed as a whole is left out. Times and fresh environments: `make matrix`.
"""

from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from benchmarks.driver import benchmark

SHOWN = 4.0  # MB; smaller packages are added up


def needed(name: str, extras: Iterable[str] = ()) -> dict[str, Distribution]:
    """Return the packages that an installation has, by name: ``name`` with its extras, and all that these need."""
    found: dict[str, Distribution] = {}
    open_ = [(name, extra) for extra in ("", *extras)]
    seen = set(open_)
    while open_:
        package, extra = open_.pop()
        found[package.lower().replace("_", "-")] = here = distribution(package)
        for requirement in map(Requirement, here.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                more = {(requirement.name, each) for each in ("", *requirement.extras)} - seen
                seen |= more
                open_ += more
    return found


def megabytes(package: Distribution) -> float:
    """Return the size of its files, compiled modules included."""
    files = {Path(str(package.locate_file(file))).resolve() for file in package.files or ()}
    return sum(file.stat().st_size for file in files if file.is_file()) / 2**20


@benchmark()
def main(_) -> None:
    core = needed("sottovoce")
    sizes = {name: megabytes(package) for name, package in core.items() if name != "sottovoce"}
    large = sorted((name for name in sizes if sizes[name] >= SHOWN), key=sizes.__getitem__, reverse=True)
    print("| package | version | MB |\n| --- | --- | --- |")
    for name in large:
        print(f"| {name} | {core[name].version} | {sizes[name]:.0f} |")
    rest = [name for name in sizes if name not in large]
    print(f"| {len(rest)} others | | {sum(sizes[name] for name in rest):.0f} |")
    print(f"| all that `sottovoce` needs | | {sum(sizes.values()):.0f} |\n\n| extra | adds | MB |\n| --- | --- | --- |")
    for extra in sorted(set(core["sottovoce"].metadata.get_all("Provides-Extra") or ())):
        try:
            added = {name: package for name, package in needed("sottovoce", [extra]).items() if name not in core}
        except PackageNotFoundError as missing:
            print(f"| {extra} | {missing} is not installed here | |")
            continue
        print(f"| {extra} | {len(added)} packages | {sum(map(megabytes, added.values())):.0f} |")

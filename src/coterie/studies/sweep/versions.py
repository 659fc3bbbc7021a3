"""Whether two machines compute alike: the same bits come from the same code only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["mismatch", "prober"]


def prober() -> Callable[[], dict[str, str]]:
    """A function that tells the versions where it is called, also where coterie is not installed.

    It is made anew, so that Ray sends its code along instead of the name of a module to import.
    """

    def versions() -> dict[str, str]:
        import hashlib
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec
        from pathlib import Path

        found = {}
        for package in ("coterie", "torch", "numpy"):
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "none"
        spec = find_spec("coterie")
        if spec is not None and spec.origin is not None:
            digest = hashlib.sha256()
            home = Path(spec.origin).parent
            for file in sorted(home.rglob("*.py")):
                digest.update(f"{file.relative_to(home)}\n".encode())
                digest.update(file.read_bytes())
            found["coterie"] += f" (code {digest.hexdigest()[:8]})"  # one version can be many checkouts
        return found

    return versions


def mismatch(here: Mapping[str, str], there: Mapping[str, str], where: str) -> str | None:
    """What is different there, as a sentence."""
    different = [package for package in here if there.get(package) != here[package]]
    if not different:
        return None
    have = ", ".join(f"{package} {there.get(package, 'none')}" for package in different)
    want = ", ".join(f"{package} {here[package]}" for package in different)
    return f"worker {where} has {have}, but this machine has {want}; install the same on all of them"

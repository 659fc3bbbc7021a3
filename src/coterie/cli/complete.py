"""Words that the shell completes: presets, methods, runs; found without loading torch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import typer

__all__ = ["errors", "experiments", "kinds", "methods", "names", "presets", "runs", "settings", "trackers"]

Words = Iterable[tuple[str, str]]


def _beginning(incomplete: str, words: Mapping[str, str]) -> Words:
    """Choose the words that begin so; in small letters, as they were begun, if need be."""
    fit = {word if word.startswith(incomplete) else word.lower(): about for word, about in words.items()}
    return [(word, about) for word, about in fit.items() if word.startswith(incomplete)]


def _files(incomplete: str, ending: str) -> dict[str, str]:
    folder = Path(incomplete).parent
    return {str(file): "" for file in sorted(folder.glob(f"*{ending}")) if file.is_file()}


def presets(incomplete: str) -> Words:
    """Complete the name of a preset."""
    from coterie.experiment.files import presets as there

    return _beginning(incomplete, there())


def experiments(incomplete: str) -> Words:
    """Complete the name of a preset or of a TOML file."""
    return [*presets(incomplete), *_beginning(incomplete, _files(incomplete, ".toml"))]


def _folders() -> Iterator[str]:
    for kind, mark in (("runs", "experiment.toml"), ("sweeps", "manifest.json")):
        yield from (file.parent.name for file in sorted(Path(kind).glob(f"*/{mark}")))


def runs(incomplete: str) -> Words:
    """Complete the name of a run or a sweep in runs/ or sweeps/, or the path of a folder."""
    if "/" in incomplete:
        here = Path(incomplete).parent
        return _beginning(incomplete, {str(one): "" for one in sorted(here.glob("*")) if one.is_dir()})
    return _beginning(incomplete, dict.fromkeys(_folders(), ""))


def methods(ctx: typer.Context, incomplete: str) -> Words:
    """Complete the name of a method of the run that comes before it."""
    words = [ctx.params.get("run"), *ctx.args]  # among args while the option lacks its value
    given = Path(next((str(word) for word in words if word), ""))
    files = [folder / "experiment.toml" for folder in (given, "runs" / given)]
    file = next((file for file in files if file.is_file()), None)
    return _beginning(incomplete, dict.fromkeys(_read_methods(file), "") if file else {})


def _read_methods(file: Path) -> Iterable[str]:
    try:
        return list(tomllib.loads(file.read_text("utf-8")).get("methods", {}))
    except (OSError, ValueError):
        return []


def kinds(incomplete: str) -> Words:
    """Complete what `coterie ls` lists."""
    from coterie.core.registry import KINDS

    return _beginning(incomplete, dict.fromkeys(sorted([*KINDS.values(), "presets", "runs"]), ""))


def names(ctx: typer.Context, incomplete: str) -> Words:
    """Complete the name of a plugin of the kind that comes before it."""
    from coterie.core.registry import KINDS, listed

    kind = str(ctx.params.get("kind") or "").lower()
    singular = {plural: one for one, plural in KINDS.items()}.get(kind, kind)
    if singular in ("presets", "preset"):
        return presets(incomplete)
    if singular in ("runs", "run"):
        return runs(incomplete)
    return _beginning(incomplete, listed(singular) if singular in KINDS else {})


def settings(incomplete: str) -> Words:
    """Complete the path of a setting, for `--set`; methods come with their names."""
    from coterie.core.registry import listed
    from coterie.core.support.toml import flat
    from coterie.experiment import Experiment

    paths = flat({k: v for k, v in Experiment().plain().items() if k not in ("methods", "grid", "search")})
    found = {f"{path.removesuffix('.name')}=": "" for path in paths}
    return _beginning(
        incomplete, {**found, **{f"methods.{m}.": about for m, about in listed("algorithm").items()}}
    )


def errors(incomplete: str) -> Words:
    """Complete the name of a kind of error."""
    from coterie.core.support.error_texts import error_texts

    return _beginning(incomplete, {name: text.meaning for name, text in error_texts().items()})


def trackers(incomplete: str) -> Words:
    """Complete the name of a tracker."""
    from coterie.callbacks.trackers import TRACKERS

    return _beginning(incomplete, dict.fromkeys(TRACKERS, ""))

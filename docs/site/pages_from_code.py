"""The pages of the reference, each made from the code it is about."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

from pydantic import BaseModel
from typer.main import get_command

import coterie
from coterie.core.errors import CoterieError
from coterie.core.registry import KINDS, describe, options, registered
from coterie.core.toml import assignment
from coterie.core.values import allowed
from coterie.experiment import Experiment
from coterie.experiment.schema import PLUGINS, Plugin
from coterie.peer.config import PeerConfig
from coterie.peer.errors import Reason

SOURCE = Path(coterie.__file__).parent
FOR_PLUGINS = ("core.algorithm", "core.attack", "core.data", "core.graph", "core.outputs", "core.streams", "core.second_model")
"""Modules that own plugins import from, beside `coterie` itself."""


def all_pages() -> dict[str, str]:
    """Make every page of the reference, by its path in the site without suffix."""
    return {
        "reference/python": python_page(),
        "reference/experiment": settings_page(
            Experiment,
            "Experiment TOML",
            "Every setting of an experiment. `coterie new mine` writes a file with all of them; `coterie check mine.toml` "
            "tries one; `--set train.lr=0.1` on the command line changes one by its path.",
        ),
        "reference/peer": settings_page(
            PeerConfig, "PEER.toml", "Every setting of one real peer; [the guide](../docs/peers.md) says how they go together."
        ),
        "reference/plugins": plugins_page(),
        "reference/commands": commands_page(),
        "reference/errors": errors_page(),
    }


def _page(title: str, about: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", about, *parts]) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


# --- Settings


def settings_page(top: type[BaseModel], title: str, about: str) -> str:
    """Make the page of a TOML file from its schema: each table, each key, its default, values and meaning."""
    parts = [_table(_HEAD, _rows(top, ""))]
    for key, section in _sections(top):
        parts += [f"## {key}", inspect.cleandoc(section.__doc__ or ""), _table(_HEAD, _rows(section, f"{key}."))]
    return _page(title, about, *parts)


_HEAD = ("key", "default", "values", "meaning")


def _sections(top: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for key, hint in get_type_hints(top).items():
        if inspect.isclass(hint) and issubclass(hint, BaseModel) and (hint is not Plugin):
            yield key, hint


def _rows(section: type[BaseModel], path: str) -> Iterator[tuple[str, str, str, str]]:
    tables = {key for key, _ in _sections(section)}
    hints = get_type_hints(section, include_extras=True)
    for key, field in section.model_fields.items():
        if key in tables:
            yield _code(f"[{key}]"), "", "table", field.description or f"[below](#{key})"
            continue
        kind = PLUGINS.get(f"{path}{key}")
        values = f"a name of {KINDS[kind]}, or a table with one and its options" if kind else allowed(hints[key])
        yield _code(f"{path}{key}"), _code(_default(field)), values, field.description or ""


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, dict) and all(isinstance(v, BaseModel) for v in value.values()):
        value = list(value)
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if dataclass_name := getattr(value, "name", None):
        value = dataclass_name
    if isinstance(value, dict) and set(value) >= {"name"}:
        value = value["name"]
    if value is None:
        return ""
    return assignment("x", list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value)[4:]


# --- Plugins


def plugins_page() -> str:
    """Make the page of everything that settings can name, with the options of each."""
    parts = []
    for kind, folder in KINDS.items():
        parts.append(f"## {folder}")
        for name, plugin in sorted(registered(kind).items(), key=lambda item: item[0].lower()):
            parts += [f"### {folder[:-1] if kind != 'dataset' else 'data set'} {name}".replace("topologie ", "topology "), describe(plugin)]
            if kind != "distance" and (found := options(plugin)):
                parts.append(_table(("option", "default", "values", "meaning"), [(_code(o.name), _code(o.default), o.values, o.help) for o in found]))
    return _page(
        "Plugins",
        "Everything that settings can name, as `coterie ls` lists it and `coterie ls KIND NAME` explains it. "
        "[How to write one](../CONTRIBUTING.md#write-a-plugin).",
        *parts,
    )


# --- Commands


def commands_page() -> str:
    """Make the page of the command line: what `--help` of each command says."""
    parts = []
    for path, command in _commands(get_command(import_module("coterie.cli").app), "coterie"):
        parts += [f"## {path}", inspect.cleandoc(command.help or "").replace("<", "&lt;"), _parameters(command)]
    return _page("Commands", "Every command and option, as `--help` shows them.", *filter(None, parts))


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, one in getattr(command, "commands", {}).items():
        yield from _commands(one, f"{path} {name}")
    if not getattr(command, "commands", {}):
        yield path, command


def _parameters(command: Any) -> str:
    rows = []
    for p in command.params:
        if getattr(p, "hidden", False):
            continue
        shown = (p.metavar or p.name.upper()) if p.param_type_name == "argument" else ", ".join([*p.opts, *p.secondary_opts])
        default = "" if p.default in (None, False, ()) or callable(p.default) else str(p.default)
        rows.append((_code(shown), _code(default), getattr(p, "help", "") or ""))
    return _table(("", "default", "meaning"), rows) if rows else ""


# --- Errors


class Raised(NamedTuple):
    """One place at which an error is raised, and its sentence with … for what is filled in."""

    error: str
    sentence: str
    file: str


def errors_page() -> str:
    """Make the page of the errors: each class, and every sentence that it is raised with."""
    raised = sorted(set(_raised()))
    parts = []
    for error in _tree(CoterieError):
        sentences = [(r.sentence, _code(r.file)) for r in raised if r.error == error.__name__]
        parts += [f"## {error.__name__}", inspect.cleandoc(error.__doc__ or "")]
        parts += [_table(("it says", "in"), sentences)] if sentences else []
    reasons = re.findall(r'= "([\w-]+)"  # (.*)', inspect.getsource(Reason))
    return _page(
        "Errors",
        "What coterie raises on purpose. A message is one sentence or two: what, where, expected, got, remedy; on the command line it ends "
        "the command with exit code 2, in Python it is an exception below `coterie.CoterieError`. The sentences below are taken from the "
        "code, with … for what is filled in: search this page for the words that you see.",
        *parts,
        "## Reasons of refusals",
        "What a peer does not take from another one is counted and logged by these words, in `coterie peer status` and in the metric "
        "`coterie_refusals_total`; nothing has changed when one is told.",
        _table(("reason", "meaning"), [(_code(word), meaning) for word, meaning in reasons]),
    )


def _tree(error: type[CoterieError]) -> Iterator[type[CoterieError]]:
    """Name an error class and all below it that are part of coterie."""
    yield error
    for one in sorted(error.__subclasses__(), key=lambda e: e.__name__):
        if one.__module__.startswith("coterie."):
            yield from _tree(one)


def _raised() -> Iterator[Raised]:
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                error, args = node.exc.func.id, node.exc.args
                if args and (sentence := _sentence(args[-1])) and re.search(r"\w{3}", sentence):
                    yield Raised(error, sentence, str(file.relative_to(SOURCE)))


def _sentence(node: ast.expr) -> str:
    """Spell a string of the code, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return re.sub(r"(… ?)+", lambda m: m[0][:1] + m[0][-1:].strip("…"), "".join(map(_sentence, node.values)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _sentence(node.left) + _sentence(node.right)
    return "…"


# --- Python


def python_page() -> str:
    """Make the page of the public names of `coterie`, and of what own plugins import beside them."""
    parts = [_autodoc(coterie, coterie.__all__)]
    parts += ["## For plugins", "What own plugins import beside `coterie` itself; these modules may still move between minor versions."]
    for name in FOR_PLUGINS:
        module = import_module(f"coterie.{name}")
        names = [n for n in module.__all__ if n not in coterie.__all__ and _documented(getattr(module, n))]
        parts += [f"### coterie.{name}", inspect.cleandoc(module.__doc__ or "").partition("\n")[0], _autodoc(module, names)]
    return _page(
        "Python",
        "The public names of `coterie`: what they do, taken from their docstrings. They are pinned by a test, and kept as "
        "[the policy](../docs/policy.md) says." if (SOURCE.parents[1] / "docs" / "policy.md").exists() else "The public names of `coterie`.",
        *parts,
    )


def _documented(thing: Any) -> bool:
    return (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("coterie.")


def _autodoc(module: ModuleType, names: Sequence[str]) -> str:
    lines = []
    for name in names:
        thing = getattr(module, name)
        if getattr(thing, "__module__", "").startswith("coterie."):
            directive = "autoclass" if inspect.isclass(thing) else "autofunction"
            lines.append(f".. {directive}:: {thing.__module__}.{thing.__qualname__}")
        else:  # another name for a type
            lines.append(f".. autodata:: {_home(name)}.{name}")
        lines += ["   :members:", "   :exclude-members: model_config, model_post_init"] if inspect.isclass(thing) else []
        lines.append("")
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"


def _home(name: str) -> str:
    return next(module for module, names in coterie._HOMES.items() if name in names)

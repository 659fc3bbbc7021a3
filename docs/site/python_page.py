"""The page of the public names of Python."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from pieces import page

import coterie

FOR_PLUGINS = (
    "core.algorithm",
    "core.attack",
    "core.data",
    "core.graph",
    "core.ingredients.messages",
    "core.ingredients.second_model",
    "core.streams",
    "core.tasks.outputs",
)
"""Modules that own plugins import from, beside `coterie` itself."""


def python_page() -> str:
    """Make the page of the public names of `coterie`, and of what own plugins import beside them."""
    parts = [_autodoc(coterie, coterie.__all__)]
    parts += [
        "## For plugins",
        "What own plugins import beside `coterie` itself; these modules may still move between minor "
        "versions.",
    ]
    for name in FOR_PLUGINS:
        module = import_module(f"coterie.{name}")
        names = [n for n in module.__all__ if n not in coterie.__all__ and _documented(getattr(module, n))]
        parts += [
            f"### coterie.{name}",
            inspect.cleandoc(module.__doc__ or "").partition("\n")[0],
            _autodoc(module, names),
        ]
    return page(
        "Python",
        "The public names of `coterie`: what they do, taken from their docstrings. They are pinned by a "
        "test, and kept as "
        "[the policy](../docs/policy.md) says.",
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
        lines += (
            ["   :members:", "   :exclude-members: model_config, model_post_init"]
            if inspect.isclass(thing)
            else []
        )
        lines.append("")
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"


def _home(name: str) -> str:
    return next(module for module, names in coterie._HOMES.items() if name in names)

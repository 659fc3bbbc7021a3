"""Values that a type allows, in the words of somebody who writes an experiment."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

__all__ = ["allowed"]

_PLAIN = {bool: "true | false", int: "whole number", float: "number", str: "text", Path: "path"}


def allowed(hint: Any) -> str:
    """Describe the values of a type; nothing is said of one that has no short name.

    >>> allowed(Literal["unit", "sign"]), allowed(Annotated[float, Ge(0), Lt(1)] | None)
    ("'unit' | 'sign'", 'number ≥ 0 and < 1 | absent')
    >>> allowed(str | dict[str, Any])
    'text | table'
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = " and ".join(filter(None, map(_limit, inner[1:])))
        return f"{allowed(inner[0])} {limits}".strip()
    if origin is Literal:
        return " | ".join(map(repr, inner))
    if origin in (Union, types.UnionType):
        return " | ".join("absent" if one is type(None) else allowed(one) for one in inner)
    if origin in (tuple, list):
        return f"[{allowed(inner[0])}, …]"
    return "table" if origin is dict else _PLAIN.get(hint, str(getattr(hint, "VALUES", "")))


def _limit(mark: Any) -> str:
    for kind, sign, key in ((Ge, "≥", "ge"), (Gt, ">", "gt"), (Le, "≤", "le"), (Lt, "<", "lt")):
        if isinstance(mark, kind):
            return f"{sign} {getattr(mark, key):g}"
    return ""

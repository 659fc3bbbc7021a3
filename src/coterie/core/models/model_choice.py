"""A model named in an option of an algorithm: by name alone, or as a table of name and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator

__all__ = ["SAME", "ModelChoice", "ModelOption", "model_choice"]


@dataclass(frozen=True)
class ModelChoice:
    """A model plugin, or the user's own, and its options."""

    VALUES: ClassVar[str] = "text | table"
    """Values that a user may write, for lists of options."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    """Names and values in the order of the names, lists as tuples, so that choices can be compared."""

    def __repr__(self) -> str:
        """Write it as TOML does, nearly."""
        options = [f"{k} = {list(v) if isinstance(v, tuple) else v!r}" for k, v in self.options]
        return f"{{ {', '.join([f'name = {self.name!r}', *options])} }}" if options else repr(self.name)


SAME = ModelChoice("same")
"""The clients' own architecture, where all of them have the same."""


def model_choice(given: Any) -> Any:
    """Read a name, or a table with one."""
    if isinstance(given, str):
        return ModelChoice(given)
    if isinstance(given, ModelChoice):
        return given
    if not (isinstance(given, Mapping) and isinstance(given.get("name"), str)):
        raise ValueError('input should be the name of a model, or a table with one, such as { name = "mlp" }')
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if k != "name"}
    return ModelChoice(given["name"], tuple(sorted(options.items())))


ModelOption: TypeAlias = Annotated[ModelChoice, BeforeValidator(model_choice)]

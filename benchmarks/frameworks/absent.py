"""An empty torchvision for frameworks that import it for data sets which are not used here.

Its builds fit one build of torch only, and some frameworks ask for it without saying so. If the real one
works it is left alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["without"]


class _Empty(ModuleType):
    """Has every name that is asked of it, as a class that does nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # so that it has submodules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.split(".")[0] == self.package else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


def without(package: str) -> None:
    """Let imports of a package succeed, whether it works here or not."""
    try:
        importlib.import_module(package)
    except Exception:
        for name in [n for n in sys.modules if n.split(".")[0] == package]:
            del sys.modules[name]
        sys.meta_path.insert(0, _Finder(package))

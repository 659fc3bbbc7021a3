"""The page's modules as one script, for a file that has to stand alone.

Each module becomes a function that gives back what it exported; what it imported are constants of it.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["bundle"]

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class)) (\w+)", re.MULTILINE)


def bundle(folder: Path, entry: str) -> str:
    """`entry` and all it needs, in an order in which everything is there when it is used."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        text = (folder / f"{name}.js").read_text("utf-8")
        for _, needed in _IMPORT.findall(text):
            add(needed)
        exported = ", ".join(name for _, name in _EXPORT.findall(text))
        text = _IMPORT.sub(lambda m: f"const {{{m[1]}}} = ${m[2]};", text)
        text = _EXPORT.sub(r"\1 \2", text)
        done[name] = f"const ${name} = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();\n"

    add(entry)
    return '"use strict";\n' + "\n".join(done.values())

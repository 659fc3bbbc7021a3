"""The page of everything that settings can name."""

from __future__ import annotations

from pieces import code, page, table

from coterie.core.registry import KINDS, describe, options, registered


def plugins_page() -> str:
    """Make the page of everything that settings can name, with the options of each."""
    parts = []
    for kind, folder in KINDS.items():
        parts.append(f"## {folder}")
        for name, plugin in sorted(registered(kind).items(), key=lambda item: item[0].lower()):
            parts += [
                f"### {folder[:-1] if kind != 'dataset' else 'data set'} {name}".replace(
                    "topologie ", "topology "
                ),
                describe(plugin),
            ]
            if kind != "distance" and (found := options(plugin)):
                parts.append(
                    table(
                        ("option", "default", "values", "meaning"),
                        [(code(o.name), code(o.default), o.values, o.help) for o in found],
                    )
                )
    return page(
        "Plugins",
        "Everything that settings can name, as `coterie ls` lists it and `coterie ls KIND NAME` explains it. "
        "[How to write one](../CONTRIBUTING.md#write-a-plugin).",
        *parts,
    )

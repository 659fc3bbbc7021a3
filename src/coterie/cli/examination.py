"""The examination of a machine: facts as plain values, and what follows from them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from coterie import __version__

__all__ = ["Remark", "facts", "remarks"]

_LITTLE_MEMORY = 2.0
"""GB of free memory below which runs of many clients are cut into parts."""
_LITTLE_DISK = 2.0
"""GB of free disk below which a long run may fill it."""


class Remark(NamedTuple):
    """One thing that is slow or missing, with its reason, and what to do."""

    what: str
    remedy: str


def facts(root: Path | None) -> dict[str, Any]:
    """Look at everything; nothing is changed."""
    import torch

    memory, free = _memory()
    return {
        "coterie": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "torch": str(torch.__version__),
        "device": _devices(),
        "compiler": next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None),
        "cores": _cores(),
        "threads": torch.get_num_threads(),
        "memory_gb": memory,
        "memory_free_gb": free,
        "disk_free_gb": round(shutil.disk_usage(Path.cwd()).free / 1e9, 1),
        "packages": _packages(None),
        "extras": {extra: all(_packages(extra).values()) for extra in _extras()},
        "ray": _version("ray"),
        "data_folder": None if root is None else str(root),
        "data": _data(root),
        "plugins": list(_plugin_errors()),
    }


def remarks(found: dict[str, Any]) -> list[Remark]:
    """Say what is slow or missing, and what to do about it."""
    said = []
    if found["device"] == ["cpu"]:
        said.append(
            Remark(
                "no GPU that torch can use: local steps run on the processor",
                "fine for small models; for more, install a torch built for your GPU and run with --device "
                "cuda",
            )
        )
    if found["compiler"] is None:
        said.append(
            Remark(
                "no C++ compiler: local steps of models with unknown layers cannot be compiled, some three "
                "times slower",
                "install one, such as g++ (Debian: apt install g++, macOS: xcode-select --install)",
            )
        )
    if found["threads"] > found["cores"]:
        said.append(
            Remark(
                f"torch uses {found['threads']} threads, but this process may use {found['cores']} cores",
                f"set OMP_NUM_THREADS={found['cores']}",
            )
        )
    elif found["threads"] < found["cores"]:
        said.append(
            Remark(
                f"torch uses {found['threads']} of {found['cores']} cores"
                + (": OMP_NUM_THREADS is set" if "OMP_NUM_THREADS" in os.environ else ""),
                "leave OMP_NUM_THREADS unset, unless other work needs the cores",
            )
        )
    if (free := found["memory_free_gb"]) is not None and free < _LITTLE_MEMORY:
        said.append(
            Remark(
                f"only {free} GB of memory are free: runs of many clients are cut into parts, which is "
                "slower",
                "end what else needs memory, or run fewer clients, methods or seeds at once",
            )
        )
    if found["disk_free_gb"] < _LITTLE_DISK:
        said.append(
            Remark(
                f"only {found['disk_free_gb']} GB are free on this disk: a long run may fill it",
                "make room, or run elsewhere with --out",
            )
        )
    if absent := [extra for extra, there in found["extras"].items() if not there and extra != "dev"]:
        said.append(
            Remark(
                f"extras that are not installed: {', '.join(absent)}",
                f"pip install 'coterie[{','.join(absent)}]', if you want what they bring",
            )
        )
    if lacking := [name for name, one in found["data"].items() if one["state"] != "present"]:
        said.append(
            Remark(
                f"data sets whose files are not here: {', '.join(lacking)}",
                "coterie data fetch NAME; point --data or COTERIE_DATA at the folder where they lie",
            )
        )
    return [*said, *(Remark(text, "mend or uninstall that package") for text in found["plugins"])]


def _devices() -> list[str]:
    import torch

    cuda = [
        f"cuda:{i} ({torch.cuda.get_device_name(i)}, "
        f"{torch.cuda.get_device_properties(i).total_memory / 2**30:.0f} GB)"
        for i in range(torch.cuda.device_count())
    ]
    return ["cpu", *cuda]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> tuple[float | None, float | None]:
    """Read all memory and that which is free, in GB, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None, None
    kilobytes = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
    return tuple(round(kilobytes[k] / 1e6, 1) for k in ("MemTotal", "MemAvailable"))  # type: ignore[return-value]


def _packages(extra: str | None) -> dict[str, str | None]:
    """List the versions of what coterie needs, or what an extra of it brings."""
    found = {}
    for line in metadata.requires("coterie") or []:
        needed, _, condition = line.partition(";")
        of = re.search(r"""extra == ['"]([\w-]+)['"]""", condition)
        if (of and of.group(1)) == extra and not needed.startswith("coterie"):
            name = re.split(r"[^\w.-]", needed.strip(), maxsplit=1)[0]
            found[name] = _version(name)
    return found


def _extras() -> list[str]:
    return metadata.metadata("coterie").get_all("Provides-Extra") or []


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _data(root: Path | None) -> dict[str, dict[str, str]]:
    from coterie.data_files.catalogue import catalogue
    from coterie.data_files.fetch import state

    return {
        name: {"state": state(entry, root), "where": str(entry.place(root))}
        for name, entry in catalogue().items()
    }


def _plugin_errors() -> tuple[str, ...]:
    from coterie.core.registry import import_packages

    return import_packages()

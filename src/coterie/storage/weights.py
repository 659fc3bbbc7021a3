"""Pretrained weights: the named tensors of any safetensors file, for models to begin from."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from coterie.core.errors import ModelError
from coterie.core.own.home import at_home, beside
from coterie.core.types import Tensors

__all__ = ["ENDING", "initial_weights"]

ENDING = ".safetensors"


def initial_weights(init: str, home: Path | None) -> Tensors:
    """Read the weights that `train.init` names; none if it is no file.

    A relative path is looked for in `home`, the folder of the settings, and then here.
    """
    if not init.endswith(ENDING):
        return {}
    with at_home(home):
        path = beside(Path(init)) or Path(init).expanduser()
    if not path.is_file():
        raise ModelError(
            f"train.init = {init!r}: there is no such file; name it by its path from the folder of the "
            "settings, or in full"
        )
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"train.init: {path} is no safetensors file, or damaged ({error})") from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelError(f"train.init: the tensor {name!r} of {path} has NaN or infinity; mend the file")
    return tensors

"""The pages of the reference, each made from the code it is about."""

from __future__ import annotations

from commands_page import commands_page
from errors_page import errors_page
from plugins_page import plugins_page
from python_page import python_page
from settings_page import settings_page

from coterie.experiment import Experiment
from coterie.peer.config import PeerConfig


def pages() -> dict[str, str]:
    """Make every page of the reference, by its path in the site without suffix."""
    return {
        "reference/python": python_page(),
        "reference/experiment": settings_page(
            Experiment,
            "Experiment TOML",
            "Every setting of an experiment. `coterie new mine` writes a file with all of them, `coterie "
            "check mine.toml` tries one, `--set train.lr=0.1` on the command line changes one by its path.",
        ),
        "reference/peer": settings_page(
            PeerConfig,
            "PEER.toml",
            "Every setting of one real peer; [the guide](../docs/peers.md) says how they go together.",
        ),
        "reference/plugins": plugins_page(),
        "reference/commands": commands_page(),
        "reference/errors": errors_page(),
    }

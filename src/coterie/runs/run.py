"""Reading a run folder: tables, curves, graphs, pictures."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core.errors import ConfigError, RunError, UnknownNameError
from coterie.core.tasks.metric import TaskFacts
from coterie.runs import results
from coterie.runs.environment import READABLE
from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.graph import graph
from coterie.runs.jsonl_index import JsonlIndex
from coterie.runs.metrics import (
    SCORES,
    Floats,
    WeightUpdate,
    WorldMetrics,
    by_name,
    read_weight_updates,
    read_world_metrics,
)
from coterie.runs.summary import row, summarize
from coterie.storage.files import DAMAGE, open_folder, read_json, read_toml
from coterie.storage.lock import is_released

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from coterie.core.models.trained_model import ModelCard, TrainedModel
    from coterie.experiment import Experiment

__all__ = ["Run"]


class Run:
    """A run as it is on disk, finished, cut short or going on; what is read once is kept.

    >>> Run("quickstart").table()  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        """Open a run folder, or the one of that name in `runs/`."""
        self.path = Path(path)
        if not self.path.exists() and (named := Path("runs") / path).exists():
            self.path = named
        self.environment = open_folder(self.path, "run", "experiment.toml", "environment.json", *READABLE)
        """Versions, machine, commit, command line, date."""

    @classmethod
    def elsewhere(cls, path: Path) -> Run:
        """Stand for a run whose folder only another machine can read."""
        run = cls.__new__(cls)
        run.path, run.environment = path, {}
        return run

    @classmethod
    def finished(cls, path: Path, experiment: Experiment) -> Run | None:
        """Open the run in a folder if it is done and of this experiment."""
        if not (path / "experiment.toml").exists():
            return None
        run = cls(path)
        done = run.status["state"] == "done" and run.experiment.fingerprint() == experiment.fingerprint()
        return run if done else None

    @classmethod
    def latest(cls, folder: str | Path = "runs") -> Run:
        """Open the run that was last written to, of those in a folder."""
        found = [file.parent for file in Path(folder).glob("*/experiment.toml")]
        if not found:
            raise RunError(f"there is no run in {folder}/ yet; start one with: coterie run quickstart")
        return cls(max(found, key=lambda path: max(file.stat().st_mtime_ns for file in path.iterdir())))

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Show how far it is, and the result table."""
        status, shown = self.status, results.table(self.summary())._repr_html_() if self.tracks else ""
        said = f"{self.path}: {status['state']}, iteration {status['t']} of {status['iterations']}"
        return f"<div><code>{escape(said)}</code>{shown}</div>"

    @cached_property
    def config(self) -> dict[str, Any]:
        """The experiment as plain data."""
        return read_toml(self.path / "experiment.toml")

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment, ready to be run again."""
        from coterie.experiment import Experiment

        return Experiment.parse(self.config)

    @property
    def status(self) -> dict[str, Any]:
        """The run's state and progress at this moment; interrupted: its process ended without a word."""
        values = self._written()
        if values["state"] == "running" and is_released(self.path):
            values = self._written()  # again: it may have come to its end just now
            if values["state"] == "running":
                values["state"] = "interrupted"
        return values

    def _written(self) -> dict[str, Any]:
        file = self.path / "status.json"
        if not file.exists():
            return {
                "state": "running",
                "t": 0,
                "iterations": self.config["train"]["iterations"],
                "seconds": 0.0,
            }
        values: dict[str, Any] = read_json(file)
        if not (isinstance(values, dict) and {"state", "t", "iterations"} <= values.keys()):
            raise RunError(f"{file} is damaged: expected state, t and iterations")
        return values

    @property
    def continue_with(self) -> str | None:
        """The command that continues it, if it has ended too early."""
        return self.resume_command if self.status["state"] in ("stopped", "failed", "interrupted") else None

    @property
    def resume_command(self) -> str | None:
        """The command that continues it; a swarm's run cannot be continued."""
        if (self.path / "peers").exists():
            return None
        return shlex.join(["coterie", "run", "--resume", "--out", str(self.path)])

    @cached_property
    def worlds(self) -> list[dict[str, Any]]:
        """Each world's name, label, seed, setting and federation."""
        values: list[dict[str, Any]] = read_json(self.path / "worlds.json")
        return values

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        """Each federation's seed, classes and, for every client, group, train size and label counts."""
        values: list[dict[str, Any]] = read_json(self.path / "clients.json")
        return values

    @cached_property
    def task(self) -> TaskFacts:
        """The task's name, its metrics, and whether it has classes."""
        file = self.path / "task.json"
        if not file.exists():  # of an older version, or not written yet
            return TaskFacts()
        try:
            return TaskFacts.parse(read_json(file))
        except (*DAMAGE, ConfigError) as error:
            raise RunError(f"{file} is damaged: {error!r}") from None

    @cached_property
    def tracks(self) -> list[WorldMetrics]:
        """The metrics of each world."""
        return read_world_metrics(self.path, self.config, self.task)

    @cached_property
    def weighed(self) -> dict[int, list[WeightUpdate]]:
        """All weights that were reported in each world; none for methods without weights."""
        return read_weight_updates(self.path)

    def history(self, world: WorldMetrics) -> ExchangeHistory:
        """Read everything that the clients of one world heard and made of it."""
        found, rows = ExchangeHistory(world.roster), self._exchanges
        found.add(list(rows.read(rows.of(world.world).tolist())))
        return found

    @cached_property
    def _exchanges(self) -> JsonlIndex:
        index = JsonlIndex(self.path / "exchanges.jsonl")
        index.refresh()
        return index

    @property
    def recorded(self) -> str:
        """Which clients are recorded one by one, in words: all, or a sample of very many."""
        rosters = [w.roster for w in self.tracks]
        return max(rosters, key=lambda roster: roster.total).said() if rosters else "nothing yet"

    def summary(self) -> dict[str, Any]:
        """Compute the numbers of the result table; `coterie.runs.summary` tells what each means."""
        return self.summarized(self.tracks, self.weighed)

    def summarized(
        self, tracks: Sequence[WorldMetrics], weighed: Mapping[int, Sequence[WeightUpdate]]
    ) -> dict[str, Any]:
        """Compute `summary` from what has been read of the run so far."""
        status, named = self.status, by_name(tracks)
        return {
            "name": self.config["name"],
            "state": status["state"],
            "t": status["t"],
            "iterations": status["iterations"],
            "missing": status.get("missing", []),
            "seeds": sorted({t.seed for t in tracks}),
            "clients": max((t.roster.total for t in tracks), default=0),
            "recorded": max((len(t.roster) for t in tracks), default=0),
            "attackers": max((t.attacking for t in tracks), default=0),
            "task": self.task.plain(),
            "groups": max((len(np.unique(t.roster.group)) for t in tracks), default=0),
            "local": [name for name, worlds in named.items() if worlds[0].alone],
            "methods": summarize(tracks, weighed),
            **({"stopped_early": early} if (early := status.get("stopped_early")) else {}),
            "settings": {
                name: {"method": worlds[0].label, "setting": worlds[0].setting}
                for name, worlds in named.items()
            },
        }

    def table(self) -> DataFrame:
        """Make one row for each method, with the columns of `summary`."""
        import pandas as pd

        rows = {name: row(method) for name, method in self.summary()["methods"].items()}
        frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
        return frame.astype({k: float for k in frame if k not in ("bytes_sent", "diverged")})

    def curves(self) -> DataFrame:
        """Make one row for each method, seed and evaluation, with means over the clients."""
        import pandas as pd

        scores = self._scores()
        columns = ["method", "seed", "t", *scores, "bytes", "diverged"]
        rows = [
            (w.name, w.seed, *row)
            for w in self.tracks
            for row in zip(
                w.t.tolist(),
                *(w.means(score).tolist() for score in scores),
                w.bytes.tolist(),
                w.diverged_clients,
                strict=True,
            )
        ]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def metrics(self) -> DataFrame:
        """All that was measured: one row for each method, seed, evaluation and client that is recorded."""
        import pandas as pd

        frames = [
            pd.DataFrame(
                {
                    "method": w.name,
                    "seed": w.seed,
                    "t": np.repeat(w.t, len(w.group)),
                    "client": np.tile(w.roster.numbers, len(w.t)),
                    **{score: np.asarray(w.scores[score]).reshape(-1) for score in SCORES},
                }
            )
            for w in self.tracks
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def per_client(self, t: int | None = None) -> DataFrame:
        """Make one row for each method, seed and client, at the last evaluation (up to iteration t).

        `owner`, where the data have names: whose samples the client has.
        Of very many clients, a sample is recorded one by one: `Run.recorded` says so in words.
        `vs_local` is the gain on personal samples over the same client alone, negative for one that is worse.
        """
        import pandas as pd

        frames = []
        for w in self.tracks:
            e = len(w.t) - 1 if t is None else int(np.searchsorted(w.t, t, side="right")) - 1
            if e < 0:
                continue
            columns = {
                "method": w.name,
                "seed": w.seed,
                "t": int(w.t[e]),
                "client": w.roster.numbers,
                **({"owner": list(w.owner)} if w.owner else {}),
                "group": w.group,
                **({"architecture": list(w.architecture)} if w.architecture else {}),
                "train": w.train,
                **{score: w.scores[score][e] for score in self._scores()},
                "vs_local": np.nan if (gain := w.gain("personal", e)) is None else gain,
            }
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def _scores(self) -> list[str]:
        """List the columns of values of clients: SCORES, then those of further metrics."""
        return list(dict.fromkeys((*SCORES, *self.task.columns())))

    def graph(self, method: str, seed: int, t: int | None = None) -> Floats:
        """Rebuild W at the end (or at t): `[M, M]`, row i is how much client i listens to each other one.

        Where only a sample of the clients is recorded, rows and columns are those of the sample, in order.
        """
        world = self.track(method, seed)
        if world.world not in self.weighed:
            raise RunError(f"{method} of {self.path} reported no weights, so it has no graph")
        return graph(self.weighed[world.world], world.roster, t).weight

    def model(self, method: str, seed: int, client: int | str) -> TrainedModel:
        """Load the final model of one client: it takes raw inputs, and has `classes` and a `card`.

        `client`: its number, or the name of its owner.

        >>> Run("runs/quickstart").model("KD-PDFL", seed=0, client=3)  # doctest: +SKIP
        """
        from coterie.runs.models import trained_model

        return trained_model(self, method, seed, client)

    def export(self, method: str, client: int | str, out: str | Path, seed: int | None = None) -> ModelCard:
        """Write the final model of one client to a safetensors file, and give its card.

        `client`: its number, or the name of its owner; `seed`: by default the first.

        Plain PyTorch loads the weights, `coterie predict` uses them.
        """
        from coterie.storage.model_file import save

        model = self.model(method, self.config["seeds"][0] if seed is None else seed, client)
        save(Path(out), model.card, model.net.state_dict())
        return model.card

    def track(self, method: str, seed: int) -> WorldMetrics:
        """Find the metrics of one row of the result table and one seed."""
        methods = by_name(self.tracks)
        if method not in methods:
            raise UnknownNameError(f"method of {self.path}", method, methods)
        worlds = {w.seed: w for w in methods[method]}
        if seed not in worlds:
            raise RunError(
                f"{self.path} has no seed {seed} of {method}; there are: {', '.join(map(str, worlds))}"
            )
        return worlds[seed]

    def figure(self, name: str = "overview", method: str | None = None) -> Figure:
        """Draw one picture: overview, curves, labels, gain, cost, or graph (of one method)."""
        from coterie.runs.plots.pictures import figure

        return figure(self, name, method)

    def plot(self, folder: str | Path | None = None) -> list[Path]:
        """Draw all pictures, by default into `plots/` of the run folder."""
        from coterie.runs.plots.pictures import draw

        return draw(self, Path(folder) if folder else self.path / "plots")

"""Runner of a whole experiment: its stacks one after the other, with checkpoints, until done or stopped."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coterie.core.data import Federation
from coterie.core.tasks.task import Task
from coterie.engine import checkpoint, final_models
from coterie.engine.checkpoint import Checkpoint
from coterie.engine.execution import Execution
from coterie.engine.layout import Stack, WorldSlot
from coterie.engine.plan import Plan, choose_execution
from coterie.engine.ranks import ALONE, AnySimulator, Ranks
from coterie.engine.sinks import Progress, RunSink, Watcher
from coterie.experiment import World
from coterie.federation import architecture_names, architectures, recorded

__all__ = ["described", "simulate"]

SAVING = 20
"""A checkpoint is written at most once in so many times as long as writing one takes."""


_SAVE, _STOP = 1, 2
"""Requests of a process to all at the beginning of an event; the strongest is done."""


def simulate(
    plan: Plan,
    sink: RunSink,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_every: float = 30.0,
    execution: Callable[[Task], Execution] | None = None,
    most_models: int = 0,
    watcher: Watcher | None = None,
    ranks: Ranks = ALONE,
) -> bool:
    """Run an experiment to its end, or until `stop()`; returns whether it is finished.

    With `resume` it goes on from the sink's last checkpoint, to the same bits. `execution` is for
    tests that compare one way of computing with another; the engine knows how to choose. `most_models`: the
    final models of a stack are kept if they are not more bytes than this. What a `watcher` raises ends the
    run, saved; where it gives a reason, the worlds of that stack are finished early. `ranks`: the processes
    that carry the run; `sink`, `watcher` and clock are those of the lead.
    """
    fingerprint, data, all_stacks = plan.experiment.fingerprint(), plan.data_hash(), plan.stacks
    ranks.same("samples with the fingerprint", data, "give all ranks the same data folder, with --data")
    first, saved = _begin(sink.path, all_stacks, fingerprint, data, ranks) if resume else (0, None)
    sink.truncate_to(saved.mark if saved else {})
    facts = plan.experiment.task_kind.facts(plan.experiment.task.name)
    sink.describe(*described(plan.worlds, plan.federations), facts)
    if ranks.count > 1:
        plan.federations.clear()  # of all clients: the stacks have those of their own
    if watcher:
        watcher.begun()

    def chosen(stack: Stack) -> Execution:
        return execution(stack.task) if execution else choose_execution(stack, progress)

    total = sum(s.iterations for s in all_stacks)
    done = sum(s.iterations for s in all_stacks[:first])
    for number, stack in enumerate(all_stacks[first:], start=first):
        simulator = ranks.simulator(stack, chosen, progress)
        clock, rest, enough = time.monotonic(), 0.0, False
        size = ranks.total(final_models.model_bytes(stack))
        keeps = size <= most_models
        if progress and most_models and not keeps:
            progress.notice(
                f"the final models would take {size / 1e9:.1f} GB in the run folder, so they are not kept; "
                "to keep them: --models"
            )

        def save(simulator: AnySimulator = simulator, number: int = number) -> None:
            tensors, large = simulator.tensors(), simulator.stack.large
            if not ranks.lead:
                checkpoint.take_part(tensors)
                return
            marks = sink.checkpoint_offsets()
            moment = Checkpoint(fingerprint, data, number, simulator.t, marks, {}, large)
            checkpoint.save(_path(sink.path, number), moment, tensors)

        if saved:
            simulator.restore(saved)
            saved = None
            if progress:
                progress.advance(done + simulator.t, total, 0)
        else:
            enough = _evaluate(simulator, sink, progress, watcher, ranks)
        kept = simulator.t
        while simulator.t < stack.iterations and not (enough and simulator.settled):
            if simulator.settled:
                long_ago = time.monotonic() - clock > max(checkpoint_every, rest)
                late = ranks.lead and simulator.t > kept and long_ago
                asked = ranks.most(_STOP if stop() else _SAVE * late)
                if asked:
                    began = time.monotonic()
                    save()
                    clock, kept = time.monotonic(), simulator.t
                    rest = SAVING * (clock - began)
                if asked == _STOP:
                    return False
            before = simulator.stepped
            rows = simulator.step_to_next_event()
            for row in rows:
                sink.exchange(row)
            due = enough or simulator.evaluation_due()
            try:
                if watcher and rows:
                    watcher.exchanged(simulator.t, rows)
                if due:
                    due, enough = False, _evaluate(simulator, sink, progress, watcher, ranks) or enough
            except Exception:
                if watcher and simulator.settled:
                    if due:  # an evaluation that would be missing for good
                        _evaluate(simulator, sink, None, None, ranks)
                    save()
                raise
            if progress:
                progress.advance(done + simulator.t, total, simulator.stepped - before)
        if keeps:
            own = final_models.collected([(part.stack, part.clients) for part in simulator.parts])
            models = ranks.models(own)
            if ranks.lead:
                final_models.save(final_models.path(sink.path, number), models)
        save()
        stack.free_data()
        done += stack.iterations
    return True


def _evaluate(
    simulator: AnySimulator,
    sink: RunSink,
    progress: Progress | None,
    watcher: Watcher | None,
    ranks: Ranks,
) -> bool:
    """Evaluate, and tell whether the watcher has seen enough."""
    rows, enough = simulator.evaluate(), False
    try:
        if watcher:
            enough = watcher.evaluated(simulator.t, simulator.stack.iterations, rows) is not None
        enough = ranks.agreed(enough)
        if enough and simulator.settled and simulator.t < simulator.stack.iterations:
            rows = simulator.last(rows)
    finally:
        for row in rows:
            sink.metrics(row)
    if progress:
        by_name: dict[str, list[tuple[float, int]]] = {}
        for row, member in zip(rows, simulator.stack.members, strict=True):
            by_name.setdefault(member.world.name, []).append(_personal(row, member))
        totals = {name: sum(n for _, n in seeds) for name, seeds in by_name.items()}
        progress.evaluated(
            {name: sum(a * n for a, n in by_name[name]) / total for name, total in totals.items() if total}
        )
    return enough


def _personal(row: Mapping[str, Any], member: WorldSlot) -> tuple[float, int]:
    """Average the personal metric over the honest clients of a world; how many there are."""
    if "all" in row:
        found = row["all"]["personal"]
        return found.get("mean", 0.0), found["clients"]
    honest = (~member.world.attackers).tolist()
    scores = [a for a, counts in zip(row["personal"], honest, strict=True) if counts and a == a]
    return sum(scores) / max(1, len(scores)), len(scores)


def described(
    worlds: Sequence[World], federations: Sequence[Federation]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Describe who takes part, as plain data; worlds of one seed and setting share their clients."""
    numbers: dict[tuple[int, tuple[str, ...]], int] = {}
    described: list[dict[str, Any]] = []
    clients: list[dict[str, Any]] = []
    for world, federation in zip(worlds, federations, strict=True):
        kept = recorded(len(federation.group), world.seed)
        models = _models(world, federation, kept)
        number = numbers.setdefault((id(federation), models), len(numbers))
        if number == len(clients):
            clients.append(_clients(world, federation, kept, models))
        facts = {"name": world.name, "label": world.label, "seed": world.seed, "setting": world.setting}
        described.append({**facts, "federation": number})
    return described, clients


def _clients(world: World, federation: Federation, kept: Tensor, models: Sequence[str]) -> dict[str, Any]:
    """Describe the clients of a federation, if only a sample of them is `kept` `[M]`, those."""
    found: dict[str, Any] = {"seed": world.seed}
    who = kept.nonzero()[:, 0]
    if len(who) < len(kept):
        runs = ((group, len(list(same))) for group, same in itertools.groupby(federation.group.tolist()))
        found |= {"clients": len(kept), "sample": who.tolist(), "groups": list(runs)}
        federation = federation.of(who)
    train, owner = federation.train, torch.arange(len(who))
    classes = federation.classes if world.experiment.task_kind.has_classes else ()
    labels = torch.zeros(len(owner), len(classes), dtype=torch.int64)
    if classes:
        owner = owner.repeat_interleave(train.count)
        labels.index_put_((owner, train.label), torch.ones_like(owner), accumulate=True)
    return {
        **found,
        "classes": list(classes),
        "group": federation.group.tolist(),
        "train": train.count.tolist(),
        "test": federation.personal.count.tolist(),
        "labels": labels.tolist(),
        "attackers": (world.attackers & kept).nonzero()[:, 0].tolist(),
        "owned": federation.owned,
        **({"owner": list(federation.owners)} if federation.owners else {}),
        **({"architecture": list(models)} if models else {}),
    }


def _models(world: World, federation: Federation, kept: Tensor) -> tuple[str, ...]:
    """Name the architecture of each client that is kept `[S]`; nothing if all have the same."""
    models = world.experiment.architectures
    if len(models) < 2:
        return ()
    names = architecture_names(models)
    return tuple(names[place] for place in architectures(world, federation)[kept].tolist())


def _path(folder: Path, stack: int) -> Path:
    return folder / f"checkpoint-{stack}.safetensors"


def _begin(
    folder: Path, stacks: Sequence[Stack], fingerprint: str, data: str, ranks: Ranks
) -> tuple[int, Checkpoint | None]:
    """Find where a run goes on; only the lead has the tensors."""
    first, saved = _last_checkpoint(folder, stacks, fingerprint, data) if ranks.lead else (0, None)
    first, t = ranks.agreed([first, -1 if saved is None else saved.t])
    return first, saved if ranks.lead or t < 0 else Checkpoint(fingerprint, data, first, t, {}, {})


def _last_checkpoint(
    folder: Path, stacks: Sequence[Stack], fingerprint: str, data: str
) -> tuple[int, Checkpoint | None]:
    """Load the newest checkpoint and the number of its stack; stacks before it are finished."""
    for number, stack in reversed(list(enumerate(stacks))):
        if (path := _path(folder, number)).exists():
            return number, checkpoint.load(path, fingerprint, data, stack.large)
    return 0, None

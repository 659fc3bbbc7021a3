"""What is done to a peer's process from inside, before it begins; each is a `prepare` of `PeerProcess`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["die_at", "late_bodies", "shift_clock"]

_TOUCHES = {"open", "os.rename", "os.remove", "os.chmod", "os.truncate"}


def shift_clock(seconds: float) -> None:
    """The clock on the wall is wrong by so much, for whatever we do by it.

    Not so for gRPC, which hands deadlines to its core, where the clock cannot be moved.
    """
    right = time.time

    def wrong() -> float:
        asker = str(sys._getframe(1).f_globals.get("__name__", ""))
        return right() + (0.0 if asker.startswith("grpc") else seconds)

    time.time = wrong


def die_at(folder: Path, touch: int) -> None:
    """SIGKILL just before the process touches its state folder for this time: opens, renames, removes ..."""
    inside, touches = f"{folder}{os.sep}", 0

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal touches
        if event in _TOUCHES and arguments and _is_inside(arguments[0], inside):
            touches += 1
            if touches == touch:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def late_bodies(seconds: float) -> None:
    """Whoever pulls the model has its header at once, and the body so much later."""
    from coterie.peer.transport import codec
    from coterie.peer.transport.grpc_server import GrpcServer
    from coterie.peer.transport.wire_pb2 import Answer

    async def pull(self: Any, asks: Any, context: Any) -> None:
        async with self._call("pull", context) as caller:
            stream = self._stream(context)
            answer = self._admit(codec.read_ask(await stream.read()), caller, "reply")
            envelope = await self._handler.reply(caller.id)
            answer.header.CopyFrom(codec.header(self._schema, self._terms, envelope))
            await stream.write(answer)
            await asyncio.sleep(seconds)
            for chunk in codec.chunks(self._schema, envelope.message, self._limits.chunk):
                await stream.write(Answer(chunk=chunk))

    GrpcServer._pull = pull  # type: ignore[method-assign]


def _is_inside(path: Any, folder: str) -> bool:
    if isinstance(path, int):
        try:
            path = os.readlink(f"/proc/self/fd/{path}")
        except OSError:
            return False
    return isinstance(path, str | bytes | os.PathLike) and f"{os.fsdecode(path)}{os.sep}".startswith(folder)

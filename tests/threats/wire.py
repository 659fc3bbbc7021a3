"""Machines with a network of their own, whose wire is in our hands: cut, slow, late, lossy.

Each machine is a network namespace with one interface (a TUN device); this process is the switch between
them. So every packet passes here, and each fault is one line: a packet is dropped, or queued for later.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from coterie.core.streams import Stream

__all__ = ["NoMachinesError", "Wire", "enter"]

T = TypeVar("T")

_NEWNET = 0x40000000
_TUNSETIFF, _TUN, _NO_PI = 0x400454CA, 0x0001, 0x1000
_QUEUE = 0.5
"""Seconds of traffic that a slow link keeps; what comes on top of that is lost, as in a router."""
_LARGEST = 65536


class NoMachinesError(Exception):
    """We may not make any: it needs root and /dev/net/tun."""


def _libc(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def enter(namespace: Path) -> None:
    """From now on this thread (in a new process: this process) is on that machine."""
    file = os.open(namespace, os.O_RDONLY)
    try:
        _libc("setns", file, _NEWNET)
    finally:
        os.close(file)


def _aside(work: Callable[[], T]) -> T:
    """Done in a thread of its own, which takes its namespace with it when it ends."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    value: T = found[0]
    return value


def _machine(address: str) -> tuple[int, int]:
    """A namespace with one interface; both as open files."""
    _libc("unshare", _NEWNET)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", b"wire", _TUN | _NO_PI))
    for words in (
        ("addr", "add", f"{address}/24", "dev", "wire"),
        ("link", "set", "lo", "up"),
        ("link", "set", "wire", "up"),
    ):
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY), tun


class Wire:
    """A switch between so many machines, 10.77.0.1 and on; its faults may be changed at any time."""

    def __init__(self, machines: int, seed: int = 0) -> None:
        self.blocked: set[tuple[int, int]] = set()
        """Pairs of machines: nothing goes from the first to the second."""
        self.loss = 0.0
        self.delay = 0.0
        """Seconds, one way."""
        self.rate: float | None = None
        """Bytes a second that a machine can send."""
        self.lines: dict[int, float] = {}
        """Machines on a line of their own, which carries so many bytes a second each way."""
        self.carried = self.lost = 0
        self._made: list[tuple[int, int]] = []
        try:
            for number in range(machines):
                self._made.append(_aside(partial(_machine, self.host(number))))
        except (OSError, subprocess.SubprocessError) as error:
            self._let_go()
            raise NoMachinesError(f"network namespaces are not to be had here: {error}") from None
        self._draws = (float(u) for t in itertools.count() for u in Stream(seed, "wire").uniform(4096, t))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    @staticmethod
    def host(number: int) -> str:
        """The address of a machine."""
        return f"10.77.0.{number + 1}"

    def namespace(self, number: int) -> Path:
        """Where other processes find the machine."""
        return Path(f"/proc/{os.getpid()}/fd/{self._made[number][0]}")

    def on(self, number: int, work: Callable[[], T]) -> T:
        """Done on that machine."""

        def there() -> T:
            enter(self.namespace(number))
            return work()

        return _aside(there)

    def part(self, some: Iterable[int], others: Iterable[int], one_way: bool = False) -> None:
        """Nothing passes from some to the others, nor back unless `one_way`."""
        pairs = {(a, b) for a, b in itertools.product(set(some), set(others)) if a != b}
        self.blocked = self.blocked | pairs | (set() if one_way else {(b, a) for a, b in pairs})

    def heal(self) -> None:
        """A good network again."""
        self.blocked, self.loss, self.delay, self.rate, self.lines = set(), 0.0, 0.0, None, {}

    def close(self) -> None:
        """The machines are gone with it."""
        self._over.set()
        self._thread.join()
        self._let_go()

    def _let_go(self) -> None:
        for files in self._made:
            for file in files:
                os.close(file)

    def _carry(self) -> None:
        tuns = [tun for _, tun in self._made]
        number = {tun: i for i, tun in enumerate(tuns)}
        poll = select.epoll()
        for tun in tuns:
            poll.register(tun, select.EPOLLIN)
        order = itertools.count()
        waiting: list[tuple[float, int, int, bytes]] = []
        sending, receiving = [0.0] * len(tuns), [0.0] * len(tuns)
        while not self._over.is_set():
            pause = min(0.05, max(0.0, waiting[0][0] - time.monotonic())) if waiting else 0.05
            for tun, _ in poll.poll(pause):
                here = number[tun]
                try:
                    packet = os.read(tun, _LARGEST)
                except BlockingIOError:
                    continue
                there = packet[19] - 1 if packet[0] >> 4 == 4 and packet[16:19] == b"\x0a\x4d\x00" else -1
                if not 0 <= there < len(tuns):
                    continue
                now = due = time.monotonic()
                narrow = [
                    (queue, machine, rate)
                    for queue, machine, rate in (
                        (sending, here, self.lines.get(here, self.rate)),
                        (receiving, there, self.lines.get(there)),
                    )
                    if rate
                ]
                if (
                    (here, there) in self.blocked
                    or (self.loss and next(self._draws) < self.loss)
                    or any(queue[machine] - now > _QUEUE for queue, machine, _ in narrow)
                ):
                    self.lost += 1
                    continue
                for queue, machine, rate in narrow:
                    due = queue[machine] = max(due, queue[machine]) + len(packet) / rate
                heapq.heappush(waiting, (due + self.delay, next(order), tuns[there], packet))
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, tun, packet = heapq.heappop(waiting)
                try:
                    os.write(tun, packet)
                    self.carried += 1
                except OSError:  # its queue is full
                    self.lost += 1
        poll.close()

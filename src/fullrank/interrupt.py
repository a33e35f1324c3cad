"""Ctrl-C: the program stops within seconds and never leaves incomplete files.

All files are written atomically, so the process can be ended at any time. In code that
polls (`stoppable`), the first Ctrl-C only sets a flag, so that a run can stop between
two batches and report its progress; elsewhere the program exits. After a second Ctrl-C
or a grace period, the process ends immediately.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

GRACE_SECONDS = 8.0
STATUS = 130  # the shell convention for a program that was ended by Ctrl-C
#: Set for a process that must end together with its parent.
PARENT_VARIABLE = "FULLRANK_PARENT_HOLDS_STDIN"
_MESSAGE = "stopped; run the same command again to resume"


class Interrupted(Exception):
    """The user asked to stop; the run can be resumed."""


class _State:
    asked = False
    polled = 0
    said = False
    before: Any = None  # the SIGINT handler of an application that uses the library


_state = _State()


def asked() -> bool:
    """Whether the user asked to stop."""
    return _state.asked


def install() -> None:
    """Handle Ctrl-C in this process; for the program, not for a library.

    This works even if SIGINT was inherited as ignored, as in a background job.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _handle)
    # Where Python cannot raise, such as in a destructor, it prints a traceback.
    sys.unraisablehook = _show_unless_stopping
    threading.Thread(target=_watch, args=(reader, writer), daemon=True).start()
    if os.environ.pop(PARENT_VARIABLE, None):
        threading.Thread(target=_end_with_parent, daemon=True).start()


def leave() -> None:
    """Ignore Ctrl-C while the interpreter shuts down, which it would interrupt."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Inside the context, Ctrl-C sets the flag that `asked` returns; poll it."""
    before = signal.getsignal(signal.SIGINT)
    # Python delivers signals to the main thread only.
    ours = threading.current_thread() is threading.main_thread() and before != _handle
    if ours:
        _state.before = before
        signal.signal(signal.SIGINT, _handle)
    _state.polled += 1
    try:
        yield
    finally:
        _state.polled -= 1
        if ours:
            signal.signal(signal.SIGINT, before)
            _state.asked, _state.before = False, None


def _handle(number: int, frame: FrameType | None) -> None:
    again, _state.asked = _state.asked, True
    if _state.before is not None:  # an application, which has its own handler
        if again and callable(_state.before):
            _state.before(number, frame)
    elif again or _is_importing(frame):
        _end()
    elif not _state.polled:
        _say()
        raise SystemExit(STATUS)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: compiled modules do not survive an exception
    there, and there is nothing to clean up."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _watch(reader: socket.socket, writer: socket.socket) -> None:
    """End the process when the grace period after the first Ctrl-C is over.

    The signal handler in C writes the bytes, even while the main thread computes.
    """
    while int.from_bytes(reader.recv(1)) != signal.SIGINT:
        pass
    time.sleep(GRACE_SECONDS)
    _end()


def _end_with_parent() -> None:
    """Stop when standard input is closed, because the parent process is gone."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):  # not sys.stdin, whose lock outlives the program
            pass
    os.kill(os.getpid(), signal.SIGINT)


def _end() -> None:
    _say()
    os._exit(STATUS)


def _say() -> None:
    if not _state.said:
        _state.said = True
        with contextlib.suppress(OSError):
            os.write(2, f"{_MESSAGE}\n".encode())


def _show_unless_stopping(unraisable: Any) -> None:
    if not _state.asked:
        sys.__unraisablehook__(unraisable)

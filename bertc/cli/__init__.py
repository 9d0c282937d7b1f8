"""The entry point of ``bertc``; slow imports happen after signal handlers are set."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType, ModuleType
from typing import Any


def main() -> None:
    """Run a command; every failure becomes a message and an exit code of the table."""
    signals = _Signals()
    gc.disable()  # while modules are imported, and longer in commands that soon end
    try:
        signals.answer()
        # The interpreter would look through all that was made once more when it ends.
        atexit.register(gc.freeze)
        # Looking for plugins reads the metadata of every package that is installed.
        if os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__") == "__all__":
            loader: Any = ModuleType("pydantic.plugin._loader")  # which would import `email`
            loader.get_plugins = tuple
            sys.modules[loader.__name__] = loader
        from bertc.base import own_code
        from bertc.cli.options import QUICK, app_for

        if own_code.FLAG in sys.argv:
            own_code.allow()
        words = sys.argv[1:] = [word for word in sys.argv[1:] if word != own_code.FLAG]
        _refuse_bytes(words)
        app = app_for(words)
        if words[:1] and words[0] not in QUICK:
            gc.enable()
        code = app(standalone_mode=False)  # of an Exit; None when a command just ends
        if signals.cause:  # raised in a callback from C, which cannot pass errors on
            raise signals.cause
    except BaseException as error:  # the one place where nothing may pass
        signals.ignore()
        from bertc.base.failures import exit_code
        from bertc.cli.options import in_color

        # Libraries turn the interruption of their import into errors of their own.
        code = exit_code(signals.cause or error, color=in_color(sys.stderr))
    finally:
        signals.restore()
        gc.enable()
    sys.exit(code)


class _Signals:
    """Handlers of Ctrl-C, SIGTERM and hang-ups for everything but runs, which save and stop."""

    def __init__(self) -> None:
        self.cause: KeyboardInterrupt | SystemExit | None = None
        self._before: dict[int, Any] = {}

    def answer(self) -> None:
        """Raise an exception on signals from now on."""
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                    self._before[number] = signal.signal(number, self._end)
        except ValueError:
            return  # another thread than the main one: signals are the host program's
        sys.unraisablehook = self._unraisable

    def ignore(self) -> None:
        """Ignore signals while an error is reported."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = sys.__unraisablehook__

    def _end(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.cause = KeyboardInterrupt()
        else:
            self.cause = SystemExit(128 + number)
            with suppress(OSError):  # the terminal may be gone
                os.write(2, f"error: stopped by {signal.Signals(number).name}\n".encode())
        raise self.cause

    def _unraisable(self, ignored: Any) -> None:
        if ignored.exc_value is not self.cause:
            sys.__unraisablehook__(ignored)


def _refuse_bytes(words: list[str]) -> None:
    """Refuse arguments that are not UTF-8: such names could be neither stored nor shown."""
    from bertc.base.diagnostics import UsageError

    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            message = f"the argument {ascii(word)} is not UTF-8"
            raise UsageError(message, "rename the file, or write UTF-8") from None

import os
import signal
import threading

import pytest

from bertc.diagnostics import StoppedError
from bertc.train.stopping import Stop


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_read_when_it_suits(number, code):
    before = signal.getsignal(number)
    with Stop() as stop:
        assert not stop.requested
        stop.check()
        signal.raise_signal(number)
        assert stop.requested
        with pytest.raises(StoppedError) as caught:
            stop.check()
    assert caught.value.exit_code == code
    assert signal.getsignal(number) == before


def test_a_second_signal_leaves_at_once(monkeypatch):
    left = []
    monkeypatch.setattr(os, "_exit", left.append)
    with Stop():
        signal.raise_signal(signal.SIGINT)
        assert left == []
        signal.raise_signal(signal.SIGINT)
    assert left == [130]


def long_call(stop):
    with stop.immediately():
        try:
            signal.raise_signal(signal.SIGTERM)
        except Exception:
            pytest.fail("the code in between swallowed the signal")
        pytest.fail("the call went on")


def test_a_long_call_is_interrupted_where_nothing_is_lost():
    with Stop() as stop, pytest.raises(StoppedError) as caught:
        long_call(stop)
    assert caught.value.exit_code == 143


def test_a_thread_leaves_the_signals_alone():
    before, found = signal.getsignal(signal.SIGTERM), []

    def enter() -> None:
        with Stop():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]

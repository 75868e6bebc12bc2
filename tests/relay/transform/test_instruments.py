"""Instruments: what a PassContext tells of its passes."""

import pytest

import eqsat
from eqsat import relay
from eqsat.errors import ArgumentError
from eqsat.ir.instrument import PassInstrument, PassTimingInstrument, pass_instrument
from eqsat.relay import transform

from .compilers import module, var


class Recorder(PassInstrument):
    """Writes down what it is told; raises at ``breaks_at`` and is against the pass ``skips``."""

    def __init__(self, name="", log=None, breaks_at="", skips=""):
        self.name, self.log, self.breaks_at, self.skips = name, [] if log is None else log, breaks_at, skips

    def _told(self, what):
        self.log.append(f"{self.name}{what}")
        if self.breaks_at == what:
            raise RuntimeError(what)

    def enter_pass_ctx(self):
        self._told("enter")

    def exit_pass_ctx(self):
        self._told("exit")

    def should_run(self, mod, info):
        self._told("should")
        return info.name != self.skips

    def run_before_pass(self, mod, info):
        self._told("before")

    def run_after_pass(self, mod, info):
        self._told("after")


def infer(*instruments):
    mod = module(var("x", 2))
    with eqsat.transform.PassContext(instruments=instruments):
        transform.InferType()(mod)


def test_every_instrument_is_told_of_each_step_in_turn():
    log = []
    infer(Recorder("a", log), Recorder("b", log))
    assert log == [f"{name}{what}" for what in ("enter", "should", "before", "after", "exit") for name in "ab"]


def test_a_pass_that_an_instrument_is_against_does_not_run():
    log = []
    mod = module(var("x", 2))
    with transform.PassContext(instruments=[Recorder("a", log, skips="InferType"), Recorder("b", log)]):
        assert transform.InferType()(mod) is mod
    assert log == ["aenter", "benter", "ashould", "bshould", "aexit", "bexit"]


@pytest.mark.parametrize(
    ("breaks_at", "log"),
    [
        ("enter", "a enter,b enter,a exit"),
        ("should", "a enter,b enter,a should,b should,a exit,b exit"),
        ("before", "a enter,b enter,a should,b should,a before,b before,a exit,b exit"),
        ("exit", "a enter,b enter,a should,b should,a before,b before,a after,b after,a exit,b exit"),
    ],
)
def test_an_instrument_that_raises(breaks_at, log):
    told = []
    with pytest.raises(RuntimeError, match=breaks_at):
        infer(Recorder("a ", told), Recorder("b ", told, breaks_at))
    assert ",".join(told) == log
    assert not transform.PassContext.current().instruments


def test_instruments_of_a_context_can_be_exchanged():
    first, second = Recorder(), Recorder()
    context = transform.PassContext.current()
    context.override_instruments([first])
    context.override_instruments([second])
    context.override_instruments(None)
    assert first.log == second.log == ["enter", "exit"]
    with pytest.raises(RuntimeError, match="enter"):
        context.override_instruments([Recorder(breaks_at="enter")])
    assert not context.instruments


def test_a_class_with_some_of_the_methods_is_decorated():
    @pass_instrument
    class Names:
        """Names of passes."""

        def __init__(self, names):
            self.names = names

        def run_before_pass(self, mod, info):
            self.names.append(info.name)

    assert (Names.__name__, Names.__doc__) == ("Names", "Names of passes.")
    names = []
    infer(Names(names))
    assert names == ["InferType"]


def test_passes_that_a_pass_runs_are_told_of_too():
    names = []

    @pass_instrument()
    class Names:
        def run_after_pass(self, mod, info):
            names.append(info.name)

    mod = module(var("x", 2))
    with transform.PassContext(instruments=[Names()]):
        eqsat.transform.Sequential([transform.InferType(), transform.FoldConstant()])(mod)
    assert names == ["InferType", "FoldConstant", "sequential"]


def test_the_time_of_passes():
    timing, mod = PassTimingInstrument(), module(var("x", 2))
    with transform.PassContext(instruments=[timing]):
        eqsat.transform.Sequential([transform.InferType()], name="all")(mod)
        lines = timing.render().splitlines()
    assert [line.split(":")[0] for line in lines] == ["all", "  InferType"]
    assert timing.render() == ""


def test_modules_are_printed(capsys):
    mod = module(relay.tanh(var("x", 2)))
    with transform.PassContext(instruments=[eqsat.instrument.PassPrintingInstrument(["InferType"], [])]):
        eqsat.transform.Sequential([transform.InferType(), transform.FoldConstant()])(mod)
    printed = capsys.readouterr().out
    assert printed.count("tanh") == 1
    assert printed.startswith("Print IR before: InferType")
    with transform.PassContext(instruments=[eqsat.instrument.PrintBeforeAll(), eqsat.instrument.PrintAfterAll()]):
        transform.InferType()(mod)
    assert capsys.readouterr().out.count("Running Pass: InferType") == 2


def test_a_pass_that_prints_the_module(capsys):
    mod = module(relay.tanh(var("x", 2)))
    assert eqsat.ir.structural_equal(eqsat.transform.PrintIR("here")(mod), mod)
    printed = capsys.readouterr().err
    assert printed.startswith("PrintIR(here)")
    assert "tanh" in printed


def test_what_is_no_instrument():
    with pytest.raises(ArgumentError, match="make it from its class"):
        transform.PassContext(instruments=[PassTimingInstrument])
    with pytest.raises(ArgumentError, match="decorate its class"):
        transform.PassContext(instruments=["timing"])
    with pytest.raises(ArgumentError, match="decorates classes"):
        pass_instrument(3)

"""benchkit's suites with faults injected below them, at torch's own operations: no name inside benchkit is relied on.

`BENCHKIT_SUITES=tests.support.broken` defines every suite once more under its own name, with one key more: `fault`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass, replace
from functools import cache, partial
from typing import Any
from unittest import mock

from benchkit.api.case import Case, Components, Rank
from benchkit.api.keys import RunConfig, key
from benchkit.api.registry import Suite, own_modules, suites_in
from benchkit.measure.clocks import HostClock

if "torch" in sys.modules:  # in the fork server: else every rank would load them for its first intercepted call
    import torch._dynamo
    import torch.distributed.tensor

FAULTS = (
    "none",
    "swapped",  # what a collective delivers, and what a peer sends, is rolled by one element
    "lost",  # nothing is communicated, and everything says that it is done
    "absent",  # the last rank contributes zeros
    "stale",  # a matrix product gives what it gave the first time
    "staged",  # no fault: messages between peers go by way of the host, as a GPU's do over gloo
    # within timed calls alone:
    "returning",  # a step returns at once
    "remembering",  # a step on the inputs of the one before leaves its outputs as they are
    "replaying",  # an operation gives what it gave the first time
    "corrupting",  # the first element of each row of a result is wrong
)
TAMPERED = FAULTS[-4:]
timing = 0
"""How many clocks are running: in timed calls, 1."""


def watch_clock() -> None:
    """Notes in `timing` when the clock of calls runs, once per process."""
    measured = HostClock.time
    if hasattr(measured, "watched"):
        return

    def watched(*given: Any) -> Any:
        global timing
        timing += 1
        try:
            return measured(*given)
        finally:
            timing -= 1

    watched.watched = True  # type: ignore[attr-defined]
    HostClock.time = watched  # type: ignore[method-assign]


def inject(fault: str, rank: Rank) -> Callable[[Callable[[], object]], object]:
    """What runs a call with the fault in place."""
    import torch
    from benchkit.api.verification import are_bits_equal  # NaN is like NaN
    from benchkit.suites.auto_shard.dispatcher_program import Dispatched
    from torch._C._distributed_c10d import FakeWork, Work
    from torch.distributed.tensor import DTensor
    from torch.utils._python_dispatch import TorchDispatchMode

    last = rank.index == rank.world_size - 1
    first_results: dict[Any, torch.Tensor] = {}

    def tensors_in(value: Any) -> Iterator[torch.Tensor]:
        """What is measured; not the bytes and the integers that messages travel as."""
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.dtype is torch.int32):
            yield value
        elif isinstance(value, list | tuple):
            for each in value:
                yield from tensors_in(each)

    def done(func: Any, args: Any) -> Any:
        """What an operation that has finished returns: its outputs, where its schema has any, and a handle."""
        handle = FakeWork().boxed()
        return handle if len(func._schema.returns) == 1 else (args[0], handle)

    def swapped(func: Any, args: Any, kwargs: Any) -> Any:
        if func.namespace == "_c10d_functional":
            return torch.ops._c10d_functional.wait_tensor(func(*args, **kwargs)).roll(1)
        if func is torch.ops.c10d.send.default:
            return func([each.roll(1) for each in args[0]], *args[1:], **kwargs)
        result = func(*args, **kwargs)
        if func in (torch.ops.c10d.recv_.default, torch.ops.c10d.barrier.default):
            return result
        Work.unbox(result[-1] if isinstance(result, tuple) else result).wait()
        for output in tensors_in(args[0]):
            output.copy_(output.roll(1))
        return done(func, args)

    def lost(func: Any, args: Any, kwargs: Any) -> Any:
        if func.namespace == "_c10d_functional":
            return torch.zeros_like(torch.ops._c10d_functional.wait_tensor(func(*args, **kwargs)))
        return done(func, args)

    def absent(func: Any, args: Any, kwargs: Any) -> Any:
        if last:  # the inputs: the only tensors of an operation in place, else the second argument
            for given in list(tensors_in(args[1])) or tensors_in(args[0]):
                given.zero_()
        return func(*args, **kwargs)

    results: dict[Any, Any] = {}
    steps: dict[Any, tuple[list[torch.Tensor], object, object]] = {}

    def tampered(func: Any, args: Any, kwargs: Any) -> Any:
        """An operation of a timed call that replays its first result, or gives a wrong one."""
        communicates = func.namespace == "c10d"
        if func is torch.ops.c10d.send.default:
            key = ("sent", args[2], *(each.shape for each in args[0]))
            first = results.setdefault(key, [each.clone() for each in args[0]])
            return func(first if fault == "replaying" else [each + 1 for each in args[0]], *args[1:], **kwargs)
        if func is torch.ops.c10d.recv_.default:
            return func(*args, **kwargs)
        fills_first = communicates or func is torch.ops.aten.copy_.default
        filled = list(tensors_in(args[0])) if fills_first else [kwargs["out"]] if "out" in kwargs else []
        result = func(*args, **kwargs)
        if communicates:
            Work.unbox(result[-1] if isinstance(result, tuple) else result).wait()
        outputs = filled or list(tensors_in(result))
        key = (func, *(each.shape for each in tensors_in(args)))
        first = results.setdefault(key, [each.clone() for each in outputs])
        for output, earlier in zip(outputs, first, strict=True):
            if fault == "replaying":
                output.copy_(earlier)
            elif communicates:
                output.view(-1)[:1].add_(1)
            else:
                output[..., :1].add_(1)
        return result

    class SameInputs(Exception):
        """A step begins with the inputs of the step before it."""

    def remembered(call: Callable[[], object]) -> object:
        """What a step on the inputs of the step before it returned; its outputs are as they were left."""
        begun: list[torch.Tensor] = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if not begun and not func.is_view and any(True for _ in tensors_in(args)):  # a view may be of outputs
                    begun.extend(each.clone() for each in tensors_in(args))
                    before = steps[id(call)][0] if id(call) in steps else []
                    if len(begun) == len(before) and all(map(are_bits_equal, begun, before)):
                        raise SameInputs
                return func(*args, **(kwargs or {}))

        try:
            with Watch():
                result = call()
        except SameInputs:
            return steps[id(call)][1]
        steps[id(call)] = begun, result, call  # kept: its id would serve another call, on some ranks alone
        return result

    communication = {"swapped": swapped, "lost": lost, "absent": absent}
    computing = {
        getattr(getattr(torch.ops.aten, name), overload)
        for name, overload in (
            ("mm", "default"), ("mm", "out"), ("addmm", "default"), ("bmm", "default"), ("add", "out"),
            ("copy_", "default"),
            ("relu", "default"), ("_scaled_dot_product_flash_attention_for_cpu", "default"), ("mul", "Tensor"),
        )
    }  # fmt: skip

    class Fault(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if any(issubclass(each, DTensor) for each in types):
                return NotImplemented  # DTensor first: what it does with its parts comes by here again
            communicates = func.namespace in ("c10d", "_c10d_functional") and "wait_tensor" not in str(func)
            measured = func is torch.ops.c10d.barrier.default or any(True for _ in tensors_in(args))
            if communicates and measured and fault in communication:
                return communication[fault](func, args, kwargs)
            plain = all(type(each) in (torch.Tensor, torch.nn.Parameter) for each in tensors_in(args))
            if fault in TAMPERED and measured and timing and plain and (communicates or func in computing):
                return tampered(func, args, kwargs)
            multiplies = func in (torch.ops.aten.mm.default, torch.ops.aten.mm.out)
            if fault == "stale" and multiplies and all(type(each) is torch.Tensor for each in args):
                shapes = tuple(each.shape for each in args)
                result = first_results.setdefault(shapes, func(*args, **kwargs).clone())
                return kwargs["out"].copy_(result) if "out" in kwargs else result.clone()
            return func(*args, **kwargs)

    receive = Dispatched.receive

    def receive_swapped(self: Dispatched, rank: int) -> torch.Tensor:
        """Tensors that travel as messages of bytes."""
        return receive(self, rank).roll(1)

    def run(call: Callable[[], object]) -> object:
        if fault == "returning" and timing:
            return None
        if fault == "remembering" and timing:
            return remembered(call)
        received = receive_swapped if fault == "swapped" else receive
        with Fault(), mock.patch.object(Dispatched, "receive", received):
            return call()

    return run


def broken(sound: Suite, config: Any, rank: Rank) -> list[Case]:
    """The cases of a sound suite, each run and verified with the fault in place."""
    from benchkit.api import p2p

    if config.fault == "staged":
        mock.patch.object(p2p, "is_staged_on_host", return_value=True).start()
    watch_clock()
    run = inject(config.fault, rank)

    @cache
    def faulty(case: Case | None) -> Case | None:
        """A case with the fault, which refers to other cases with the fault."""
        if case is None:
            return None
        components = Components(*map(faulty, vars(case.components).values()))
        return replace(case, step=partial(run, case.step), baseline=faulty(case.baseline), components=components)

    return list(map(faulty, sound.build(config, rank)))


def make_broken(sound: Suite) -> Suite:
    """The broken suite of the same name."""
    fields = [("fault", str, key("what goes wrong below the suite", choices=FAULTS))]
    schema: type[RunConfig] = make_dataclass(f"Broken{sound.config.__name__}", fields, bases=(sound.config,))
    schema.__module__ = __name__
    globals()[schema.__name__] = schema  # ranks unpickle it by this name
    return replace(sound, config=schema, build=partial(broken, sound))


globals().update({name: make_broken(sound) for name, sound in suites_in(own_modules()).items()})

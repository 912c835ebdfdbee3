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
from benchkit.api.keys import key
from benchkit.api.registry import Suite, own_modules, suites_in
from benchkit.api.schema import RunConfig

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
)


def inject(fault: str, rank: Rank) -> Callable[[Callable[[], object]], None]:
    """What runs a call with the fault in place."""
    import torch
    from benchkit.suites.auto_shard.dispatcher_program import Dispatched
    from torch._C._distributed_c10d import FakeWork, Work
    from torch.distributed.tensor import DTensor
    from torch.utils._python_dispatch import TorchDispatchMode

    last = rank.index == rank.world_size - 1
    first_results: dict[Any, torch.Tensor] = {}

    def tensors_in(value: Any) -> Iterator[torch.Tensor]:
        """What is measured; not the bytes and integers that messages travel as."""
        if isinstance(value, torch.Tensor) and value.is_floating_point():
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

    communication = {"swapped": swapped, "lost": lost, "absent": absent}

    class Fault(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if any(issubclass(each, DTensor) for each in types):
                return NotImplemented  # DTensor first: what it does with its parts comes by here again
            communicates = func.namespace in ("c10d", "_c10d_functional") and "wait_tensor" not in str(func)
            measured = func is torch.ops.c10d.barrier.default or any(True for _ in tensors_in(args))
            if communicates and measured and fault in communication:
                return communication[fault](func, args, kwargs)
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

    def run(call: Callable[[], object]) -> None:
        received = receive_swapped if fault == "swapped" else receive
        with Fault(), mock.patch.object(Dispatched, "receive", received):
            call()

    return run


def broken(sound: Suite, config: Any, rank: Rank) -> list[Case]:
    """The cases of a sound suite, each run and verified with the fault in place."""
    from benchkit.api import p2p

    if config.fault == "staged":
        mock.patch.object(p2p, "by_way_of_the_host", return_value=True).start()
    run = inject(config.fault, rank)

    @cache
    def faulty(case: Case | None) -> Case | None:
        """A case with the fault, which refers to other cases with the fault."""
        if case is None:
            return None
        components = Components(*map(faulty, vars(case.components).values()))
        callables = {"step": partial(run, case.step), "verify": partial(run, case.verify)}
        return replace(case, **callables, baseline=faulty(case.baseline), components=components)

    return list(map(faulty, sound.build(config, rank)))


def make_broken(sound: Suite) -> Suite:
    """The broken suite of the same name."""
    fields = [("fault", str, key("what goes wrong below the suite", choices=FAULTS))]
    schema: type[RunConfig] = make_dataclass(f"Broken{sound.config.__name__}", fields, bases=(sound.config,))
    schema.__module__ = __name__
    globals()[schema.__name__] = schema  # ranks unpickle it by this name
    return replace(sound, config=schema, build=partial(broken, sound))


globals().update({name: make_broken(sound) for name, sound in suites_in(own_modules()).items()})

"""Check benchkit's clock and products of matrices on a GPU; takes about a minute.

    python -m perf.gpu [--rounds 5] [--sizes 64,256,1024,4096,8192]

1. The spin that hides launches: its duration against the requested one.
2. A product in bfloat16, timed by benchkit and by others, interleaved: the kernel's own time by CUPTI,
   calls back to back between two events, a product a hundred times in a CUDA graph, Triton's do_bench.
3. Products of what matrices hold: zeros, -1, 0 and 1, random normal numbers; single and for a second
   without a pause; with the clock and the power that NVML reads meanwhile.
"""

import argparse
import importlib
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch
from benchkit.api.case import Case, noop
from benchkit.api.products import Matmul, fill_exact, fill_normal, matmul_of
from benchkit.api.torch_internals import keep_gpu_busy
from benchkit.gpus import open_gpu
from benchkit.measure.clocks import CudaClock
from benchkit.measure.timer import measure

from perf.harness.perturbation import plan

DEVICE = torch.device("cuda")
Call = Callable[[], object]
PAUSE_S = 0.2


def between_events(call: Call, calls: int, while_busy: Call = noop) -> float:
    """Return seconds per call of calls queued back to back; `while_busy` is called before they end."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    while_busy()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / calls


def in_a_graph(call: Call, calls: int) -> float:
    """Return seconds per call of a CUDA graph of many calls."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    graph.replay()
    return between_events(graph.replay, 3) / calls


def by_cupti(call: Call, calls: int) -> float:
    """Return the median seconds of the kernels of a call, as stamped by the GPU."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    events = [event for event in trace.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    by_call = np.array_split([event.time_range.elapsed_us() for event in events], calls)
    return median(sum(kernels) for kernels in by_call) / 1e6


def by_triton(call: Call, calls: int) -> float:
    """Return the median seconds by do_bench, which flushes the L2 cache before each call."""
    testing = importlib.import_module("triton.testing")  # torch for GPUs brings it
    return testing.do_bench(call, warmup=10, rep=50, return_mode="median") / 1e3


def by_benchkit(call: Call, calls: int, clock: CudaClock) -> float:
    """Return the median seconds as benchkit samples them, one call at a time."""
    [result] = measure(
        [Case(call)],
        plan(1, calls, warm_up=5),
        clock=clock,
        barrier=lambda: None,
        all_gather=lambda row: [row],
        seed=0,
    )
    return median(result.samples_s[0])


def show_spins(clock: CudaClock) -> None:
    print(f"spin: {clock._cycles_per_s / 1e9:.3f} GHz in one process")
    for asked_s in (10e-6, 100e-6, 1e-3, 10e-3):
        cycles = int(asked_s * clock._cycles_per_s)
        took = [between_events(partial(keep_gpu_busy, cycles), 1) for _ in range(20)]
        print(f"  asked {1e6 * asked_s:8.0f} us: {1e6 * min(took):9.1f} to {1e6 * max(took):9.1f} us")
    nothing = [clock.time(lambda: None, 1, 100e-6)[1] for _ in range(50)]
    print(f"  two events with nothing between them: {1e6 * median(nothing):.2f} us")


def show_fidelity(clock: CudaClock, sizes: list[int], rounds: int) -> None:
    arms = {"CUPTI": by_cupti, "events": between_events, "graph": in_a_graph, "do_bench": by_triton}
    arms["benchkit"] = lambda call, calls: by_benchkit(call, calls, clock)
    print(f"product, us   {''.join(f'{name:>11}' for name in arms)}  benchkit/CUPTI")
    kind = matmul_of("bfloat16", DEVICE)
    for size in sizes:
        call, calls = product(kind, size, "normal"), 20 if size > 4096 else 100
        found: dict[str, list[float]] = {name: [] for name in arms}
        for _ in range(rounds):
            for name, arm in random.sample(list(arms.items()), len(arms)):
                time.sleep(PAUSE_S)  # one arm's heat is not the next one's
                try:
                    found[name].append(arm(call, calls))
                except Exception as error:  # no Triton, no CUPTI
                    found[name].append(float("nan"))
                    print(f"  {name}: {error}")
        told = {name: median(values) for name, values in found.items()}
        row = "".join(f"{1e6 * value:11.2f}" for value in told.values())
        print(f"  {size:10}  {row}  {told['benchkit'] / told['CUPTI']:.3f}")


def product(kind: Matmul, size: int, holds: str) -> Call:
    """Return a call that multiplies two matrices of these numbers."""
    factors = kind.left(size, size), kind.right(size, size)
    if holds != "zeros":
        fill = {"normal": fill_normal, "exact": fill_exact}[holds]
        fill(torch.Generator(DEVICE), *factors)
    out = kind.product(size, size)
    return lambda: kind.multiply(*factors, out)


def show_operands(clock: CudaClock, size: int, rounds: int, seconds: float) -> None:
    gpu = open_gpu(str(torch.cuda.get_device_properties(0).uuid))
    readings = [[0.0] * 5]

    def read() -> None:
        time.sleep(0.3 * seconds)
        if gpu:
            readings.append(gpu.reading())

    print(f"products of {size}^2, TFLOP/s    each alone   without a pause   SM MHz   W")
    for dtype in ("bfloat16", "float8_e4m3fn"):
        kind = matmul_of(dtype, DEVICE)
        calls = {holds: product(kind, size, holds) for holds in ("zeros", "exact", "normal")}
        found: dict[str, list[list[float]]] = {holds: [] for holds in calls}
        for _ in range(rounds):
            for holds, call in calls.items():
                time.sleep(PAUSE_S)
                alone = by_benchkit(call, 20, clock)
                count = max(2, int(seconds / alone))
                steady_from = max(1, count // 2)
                between_events(call, steady_from)
                steady = between_events(call, count - steady_from, read)
                found[holds].append([alone, steady, readings[-1][0], readings[-1][2]])
        for holds, rows in found.items():
            alone, steady, mhz, watts = map(median, zip(*rows, strict=True))
            rates = f"{2e-12 * size**3 / alone:12.0f}   {2e-12 * size**3 / steady:15.0f}"
            print(f"  {dtype:14} {holds:8} {rates}   {mhz:6.0f}   {watts:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="64,256,1024,4096,8192")
    parser.add_argument("--seconds", type=float, default=1.0, help="of products without a pause")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    torch.cuda.set_device(0)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    with torch.inference_mode():
        clock = CudaClock(torch.cuda, lambda: None, keep_gpu_busy, align_blocks=False)
        show_spins(clock)
        show_fidelity(clock, sizes, given.rounds)
        show_operands(clock, max(sizes), given.rounds, given.seconds)


if __name__ == "__main__":
    main()

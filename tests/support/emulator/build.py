"""Builds the emulator: `python -m tests.support.emulator.build FOLDER`, once, about 6 GB and some minutes.

The folder gets the CUDA build of torch with NVIDIA's libraries; our own runtime, NCCL, driver and NVML come first.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TORCH = "torch==2.14.1"
"""A wheel for CUDA 13, whose runtime's symbols `runtime.cpp` and the stubs have."""
WHEELS = (
    TORCH, "triton", "cuda-pathfinder", "nvidia-ml-py", "nvidia-cuda-runtime", "nvidia-cuda-cupti",
    "nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cufft", "nvidia-cufile", "nvidia-curand",
    "nvidia-cusolver", "nvidia-cusparse", "nvidia-cusparselt-cu13", "nvidia-nccl-cu13", "nvidia-nvjitlink",
    "nvidia-nvshmem-cu13", "nvidia-nvtx",
)  # fmt: skip
HEADERS = ("nvidia-cuda-crt", "nvidia-cuda-cccl")
VERSIONS = "libcudart.so.13 { global: *; };\n"
"""Libraries ask for the runtime's symbols by this version."""


def build(folder: Path) -> None:
    wheels, headers = folder / "wheels", folder / "headers"
    install(wheels, WHEELS)
    install(headers, HEADERS)
    nvidia = wheels / "nvidia"
    includes = [f"-I{nvidia}/cu13/include", f"-I{headers}/nvidia/cu13/include", f"-I{nvidia}/nccl/include"]
    (folder / "versions.map").write_text(VERSIONS)
    flags = f"-Wl,--version-script={folder}/versions.map"
    library(folder, "libcudart.so.13", "runtime.cpp", nvidia / "cu13/lib/libcudart.so.13", includes, flags, "-lpthread")
    links = f"-L{folder}", "-l:libcudart.so.13", "-lrt"
    library(folder, "libnccl.so.2", "nccl.cpp", nvidia / "nccl/lib/libnccl.so.2", includes, *links)
    for name, source in (("libcuda.so.1", "driver.c"), ("libnvidia-ml.so.1", "nvml.c")):
        run("gcc", "-shared", "-fPIC", "-O1", str(HERE / source), "-o", str(folder / name))


def install(folder: Path, packages: tuple[str, ...]) -> None:
    done = folder / "installed"
    if not done.exists():
        run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *packages)
        done.touch()


def library(folder: Path, name: str, source: str, real: Path, includes: list[str], *links: str) -> None:
    """Make a library of a source; functions of the real one that it lacks return 0."""
    ours, stubs = folder / f"{source}.o", folder / f"{source}.stubs.c"
    run("g++", "-std=c++17", "-O1", "-fPIC", "-Wall", *includes, "-c", str(HERE / source), "-o", str(ours))
    missing = sorted(functions(real, "--dynamic") - functions(ours))
    stubs.write_text("".join(f"int {function}(void) {{ return 0; }}\n" for function in missing))
    run("gcc", "-fPIC", "-w", "-c", str(stubs), "-o", f"{stubs}.o")
    run("g++", "-shared", str(ours), f"{stubs}.o", "-o", str(folder / name), *links)


def functions(library: Path, *options: str) -> set[str]:
    """The functions that a library or an object defines, without their versions."""
    listed = subprocess.run(
        ("nm", *options, "--defined-only", "--extern-only", str(library)), check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {row[2].partition("@")[0] for row in rows if row[1] == "T" and not row[2].startswith("_Z")}


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def environment(folder: Path, gpus: int = 2, **more: str) -> dict[str, str]:
    """The variables with which a process finds `gpus` emulated GPUs; `more` injects faults."""
    first = (f"{folder}/libcudart.so.13", f"{folder}/libnccl.so.2")
    return {
        **os.environ,
        "EMULATED_GPUS": str(gpus),
        "LD_LIBRARY_PATH": str(folder),
        "LD_PRELOAD": ":".join(first),
        "PYTHONPATH": f"{folder}/wheels:{HERE}",
        "PATH": f"{HERE}/bin:{os.environ['PATH']}",
        **more,
    }


if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute())

"""How scripts/bench-gpu measures a workload within its time: Fourfold's programs and PyTorch's take turns, and one step's kernels
are told by CUPTI."""
import argparse
import contextlib
import dataclasses
import os
import subprocess

import gpt_shapes
import gpu_rows
import peers
import picture_shapes
from processes import Stopped, end_group, output_of
from rounds import take_turns_within


@dataclasses.dataclass
class Bench:
    """What is measured with, for all workloads."""

    binary: str
    python: str
    options: argparse.Namespace
    own: dict  # what is set for each row of Fourfold, by name: keys of a configuration, and in capitals variables
    flags_of: object  # a function: the flags of PyTorch's rows by name, for a workload
    scratch: str
    write: object  # a function: writes all that is known by now
    extra: list = dataclasses.field(default_factory=list)  # for --set, of the workload

    def settings(self, w):
        shapes = picture_shapes if "network" in w else gpt_shapes
        return {**shapes.settings_of(w), "run.device": self.options.device, "precision.compute": "bf16"}

    def peer(self, w, name, most_s):
        """PyTorch, ready for its first round."""
        flags = [*self.flags_of(w)[name], f"--device={self.options.device}"]
        if "network" not in w:
            return peers.Torch(self.python, w, {}, flags, most_s=most_s)
        return peers.Torch(self.python, w, {}, [*picture_shapes.words_of(w), *flags], "torch_pictures.py", most_s)


def fourfold_round(bench, w, own, most_s):
    """The Sample of a run; its memory is what the program takes of the device."""
    variables = {key: value for key, value in own.items() if key.isupper()}
    settings = {**bench.settings(w), **{key: value for key, value in own.items() if key not in variables}}
    run_dir, _ = peers.fourfold_run(bench.binary, settings, bench.scratch, bench.extra, environment=variables, most_s=most_s)
    return peers.sample_of(run_dir, w["warmup"], max(step["memory_bytes"] for step in peers.steps_of(run_dir)[w["warmup"] :]))


def step_kernels(bench, w, most_s):
    """What a step does on the GPU, as CUPTI recorded it in a run of ordinary steps; None and why not."""
    library = os.path.join(os.path.dirname(os.path.abspath(bench.binary)), "libkernel_times.so")
    if not os.path.exists(library):
        return None, f"{os.path.basename(library)} does not lie beside the program: it is built where CUPTI is found"
    times = os.path.join(bench.scratch, "kernels.tsv")
    with contextlib.suppress(FileNotFoundError):
        os.remove(times)
    peers.fourfold_run(bench.binary, bench.settings({**w, "warmup": 2, "steps": 8}), bench.scratch, bench.extra, most_s=most_s,
                       environment={"CUDA_INJECTION64_PATH": library, "FOURFOLD_KERNEL_TIMES": times})  # fmt: skip
    if not os.path.exists(times):
        return None, "CUPTI recorded nothing; `fourfold train` with CUDA_INJECTION64_PATH set to that library says why"
    with open(times, encoding="utf-8") as lines:
        return gpu_rows.step_kernels(lines), "no step was launched as a graph"


def kernel_table(bench, measured, most_s):
    """Measures which kernels are the fastest for a workload; the file for run.kernel_table."""
    table = os.path.join(bench.scratch, f"kernels-{measured.name}.yaml")
    words = peers.sets(bench.settings(measured.w)) + [f"--set={text}" for text in bench.options.set]
    output_of([bench.binary, "bench", "kernels", peers.empty_config(bench.scratch), *words, f"--device={bench.options.device}",
               f"-o{table}"], most_s)  # fmt: skip
    return table


def end_peer(peer):
    """A peer ends with its input; one that does not is killed."""
    with contextlib.suppress(BrokenPipeError):
        peer.process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        peer.process.wait(5)
    end_group(peer.process)
    peer.process.wait()


def start_peers(bench, measured, started, allowed):
    """Starts PyTorch in each of its settings, one after another; one that is not ready in time has no rounds."""
    for name in measured.peers():
        print(f"{measured.name}: starting PyTorch, {name}", flush=True)
        try:
            started[name] = bench.peer(measured.w, name, allowed.most_s(name))
            measured.version = measured.version or started[name].version()
        except Stopped as stopped:
            measured.fail(name, f"it was not ready: {stopped.reason()}")
        bench.write()


def measure(bench, measured, allowed):
    """Fills `measured`; calls `write` whenever there is more to show."""
    started = {}
    bench.extra = list(bench.options.set)
    try:
        if bench.options.table:
            print(f"{measured.name}: measuring kernels", flush=True)
            try:
                bench.extra.append(f"run.kernel_table={kernel_table(bench, measured, allowed.most_s('table'))}")
            except Stopped as stopped:
                measured.remarks.append(f"no kernels were measured, so Fourfold took its built-in choice: {stopped.reason()}")
        start_peers(bench, measured, started, allowed)
        measure_rounds(bench, measured, started, allowed)
    except BaseException:  # told to end: there may be no time to wait for anybody
        for peer in started.values():
            end_group(peer.process)
        raise
    finally:
        for peer in started.values():
            end_peer(peer)
    measured.remarks += gpu_rows.wrong_answers(measured)


def measure_rounds(bench, measured, started, allowed):
    """Rounds of all programs, and after the first one the kernels of a step, so that they are there whatever ends the others."""

    def program(name):
        if measured.is_peer(name):
            return lambda most_s: started[name].round(measured.w["steps"], most_s)
        return lambda most_s: fourfold_round(bench, measured.w, bench.own[name], most_s)

    def after_first():
        if gpu_rows.OURS in measured.rounds.samples:
            measure_kernels(bench, measured, allowed)
            bench.write()

    programs = {name: program(name) for name in measured.rounds.samples}
    take_turns_within(f"{measured.name}: ", programs, measured.rounds, allowed, bench.write, after_first)


def measure_kernels(bench, measured, allowed):
    if not measured.rounds.samples[gpu_rows.OURS]:
        measured.why_not = "the row `ours` has no round"
        return
    if allowed.left_s() < allowed.longest_s[gpu_rows.OURS]:
        measured.why_not = "no time was left"
        return
    try:
        measured.kernels, measured.why_not = step_kernels(bench, measured.w, allowed.most_s(gpu_rows.OURS))
    except Stopped as stopped:
        measured.why_not = stopped.reason()

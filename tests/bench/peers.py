"""The two programs that recipes compare: runs of Fourfold, and PyTorch as a process that waits between its rounds."""
import contextlib
import dataclasses
import json
import os
import shutil
import statistics
import subprocess

from processes import ROOT, Stopped, bounded, fail, script, start_process

# Tells glibc to keep what a program gives back: PyTorch asks for the same memory in each step.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 33), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 26)}
# Nothing but steps, for any model: no saves, samples or evaluations but one of one batch at the end.
ONLY_STEPS = {
    "data.format": "synthetic", "lr_schedule.kind": "constant", "lr_schedule.warmup_steps": 0, "checkpoint.interval_minutes": 0,
    "eval.batches": 1, "eval.interval_steps": 0,
}  # fmt: skip


@dataclasses.dataclass
class Sample:
    """What a program says in one round."""

    step_s: float  # seconds of a step: the median of those that count
    peak_bytes: int = 0
    losses: list = dataclasses.field(default_factory=list)  # of all its steps, where it tells them
    traffic: list = dataclasses.field(default_factory=list)  # of a traced run, by class of traffic


def torch_python():
    """The Python that TORCH_PYTHON names, which has PyTorch."""
    python = os.environ.get("TORCH_PYTHON") or fail("set TORCH_PYTHON to a Python that has PyTorch")
    if not shutil.which(python):
        fail(f"TORCH_PYTHON: there is no program {python}")
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        fail(f"{python} has no PyTorch; install it there with `-m pip install torch`")
    return python


class Torch:
    """PyTorch training the model of a workload, loaded and waiting between its rounds. With a bound `most_s` in seconds, it is
    ended if it is not ready then, and it leads a group of processes."""

    def __init__(self, python, w, environment, flags, script="torch_gpt.py", most_s=None):
        sizes = []
        if script == "torch_gpt.py":
            keys = ("layers", "heads", "hidden", "vocab", "length", "batch", "bias", "groups", "ffn", "theta")
            sizes = [f"--{key}={w[key]}" for key in keys if key in w]
        command = [python, os.path.join(ROOT, "tests/bench", script), *sizes, f"--warmup={w['warmup']}", *flags]
        self.process = start_process(command, most_s is not None, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.facts = self.answer(most_s)

    def answer(self, most_s=None):
        with bounded(self.process, most_s):
            line = self.process.stdout.readline()
            if not line:
                raise Stopped(f"{script()}: PyTorch ended with code {self.process.wait()}; its message stands above")
        return json.loads(line)

    def round(self, steps, most_s=None):
        """The Sample of some steps; its loss is that of the very first step."""
        with contextlib.suppress(BrokenPipeError):  # the answer says that it has ended
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        result = self.answer(most_s)
        return Sample(statistics.median(result["step_s"]), result["peak_bytes"], [self.facts["loss"]])

    def version(self):
        """PyTorch's, and which of its kernels computes attention where there was a choice."""
        chosen = self.facts.get("attention", "default")
        return self.facts["torch"] + (f" ({chosen})" if chosen != "default" else "")

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def mkl_as_on_intel(wanted, scratch):
    """An environment in which PyTorch's MKL takes every CPU for one of Intel's, and so uses AVX-512 on others too; if not wanted,
    none."""
    if not wanted:
        return {}
    library = os.path.join(scratch, "intel_cpu.so")
    answers = "".join(f"int {name}(void) {{ return 1; }}\n" for name in ("mkl_serv_intel_cpu", "mkl_serv_intel_cpu_true"))
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    if not shutil.which("cc") or subprocess.run(command, input=answers, text=True).returncode != 0:
        fail("--mkl-as-on-intel needs a C compiler")
    return {"LD_PRELOAD": library}


def empty_config(scratch):
    """A configuration in which nothing is settled."""
    path = os.path.join(scratch, "empty.yaml")
    with open(path, "w", encoding="utf-8") as config:
        config.write("run: {name: bench}\n")
    return path


def sets(settings):
    """Settings as words of a command line."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def fourfold_run(binary, settings, scratch, extra=(), flags=(), environment=None, launcher=(), most_s=None):
    """One run, a process of its own: its folder and its peak memory in bytes. `extra` are texts for --set, `launcher` the words
    that start the ranks. It is ended after `most_s` seconds."""
    run_dir = os.path.join(scratch, "run")
    command = [*launcher, binary, "train", empty_config(scratch), "--overwrite", "--no-weights", *flags]
    command += sets({**settings, "run.dir": run_dir}) + [word for text in extra for word in ("--set", text)]
    process = start_process(command, most_s is not None, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)  # fmt: skip
    with process.stdout, bounded(process, most_s):
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Stopped(f"{script()}: {' '.join(command)}\nended with code {process.returncode}:\n{output}")
    return run_dir, usage.ru_maxrss * 1024


def steps_of(run_dir):
    """The lines of a run's metrics."""
    with open(os.path.join(run_dir, "metrics.jsonl"), encoding="utf-8") as metrics:
        return [json.loads(line) for line in metrics]


def sample_of(run_dir, warmup, peak_bytes=0):
    """What a run says: the median of its steps after the warm-up, and all its losses."""
    lines = steps_of(run_dir)
    return Sample(statistics.median(line["step_time_s"] for line in lines[warmup:]), peak_bytes, [line["loss"] for line in lines])

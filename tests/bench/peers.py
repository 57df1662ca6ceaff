"""What the scripts/bench-* share: PyTorch as a process between rounds, and runs of Fourfold."""
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.basename(sys.argv[0])


def fail(message):
    sys.exit(f"{SCRIPT}: {message}")


class Stopped(SystemExit):
    """A process failed, or was ended after its time. Where nobody catches it, the script ends with its message."""


@contextlib.contextmanager
def bounded(process, most_s):
    """Ends a process that leads a group, and all of the group, if the block takes longer or is left by an exception. Raises Stopped
    in the first case. Without a bound it does nothing."""
    if most_s is None:
        yield
        return
    is_over = threading.Event()

    def end():
        is_over.set()
        end_group(process)

    timer = threading.Timer(most_s, end)
    timer.start()
    try:
        yield
    except BaseException:
        end_group(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if not is_over.is_set():
            raise
    finally:
        timer.cancel()
        timer.join()
    if is_over.is_set():
        process.wait()
        raise Stopped(f"it was ended after {most_s:.0f} s")


leaders = []  # processes that were started with a group of their own
is_starting, is_told = False, False


def start_process(command, leads, **options):
    """Starts a process, with a group of its own if it `leads` one. A signal to end waits until it is known whom to end."""
    global is_starting
    is_starting = True
    try:
        process = subprocess.Popen(command, start_new_session=leads, **options)
        if leads:
            leaders.append(process)
    finally:
        is_starting = False
    if is_told:
        signal.raise_signal(signal.SIGTERM)
    return process


def end_when_told(message):
    """From now on SIGTERM ends all groups of processes, then the script, with its message."""

    def end(*_):
        global is_told
        is_told = True
        if is_starting:
            return
        for process in leaders:
            if process.returncode is None:
                end_group(process)
        fail(message)

    signal.signal(signal.SIGTERM, end)


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def torch_python():
    """The Python that TORCH_PYTHON names, which has PyTorch."""
    python = os.environ.get("TORCH_PYTHON") or fail("set TORCH_PYTHON to a Python that has PyTorch")
    if not shutil.which(python):
        fail(f"TORCH_PYTHON: there is no program {python}")
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        fail(f"{python} has no PyTorch; install it there with `-m pip install torch`")
    return python


class Torch:
    """PyTorch training the model of a workload, loaded and waiting between its rounds. With a bound `most_s` in seconds, it is ended
    if it is not ready then, and it leads a group of processes."""

    def __init__(self, python, w, environment, flags, script="torch_gpt.py", most_s=None):
        sizes = []
        if script == "torch_gpt.py":
            sizes = [f"--{key}={w[key]}" for key in ("layers", "heads", "hidden", "vocab", "length", "batch", "bias")]
        command = [python, os.path.join(ROOT, "tests/bench", script), *sizes, f"--warmup={w['warmup']}", *flags]
        self.process = start_process(command, most_s is not None, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.facts = self.answer(most_s)

    def answer(self, most_s=None):
        with bounded(self.process, most_s):
            line = self.process.stdout.readline()
            if not line:
                raise Stopped(f"{SCRIPT}: PyTorch ended with code {self.process.wait()}; its message stands above")
        return json.loads(line)

    def round(self, steps, most_s=None):
        """Median time of a step, and peak memory in bytes."""
        with contextlib.suppress(BrokenPipeError):  # the answer says that it has ended
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        result = self.answer(most_s)
        return statistics.median(result["step_s"]), result["peak_bytes"]

    def version(self):
        """PyTorch's, and which of its kernels computes attention where there was a choice."""
        chosen = self.facts["attention"]
        return self.facts["torch"] + (f" ({chosen})" if chosen != "default" else "")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def mkl_as_on_intel(scratch):
    """An environment in which PyTorch's MKL takes every CPU for one of Intel's, and so uses AVX-512 on others too."""
    library = os.path.join(scratch, "intel_cpu.so")
    answers = "".join(f"int {name}(void) {{ return 1; }}\n" for name in ("mkl_serv_intel_cpu", "mkl_serv_intel_cpu_true"))
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    if not shutil.which("cc") or subprocess.run(command, input=answers, text=True).returncode != 0:
        fail("--mkl-as-on-intel needs a C compiler")
    return {"LD_PRELOAD": library}


def settings_of(w):
    """A workload as keys of Fourfold: GPT on random tokens, AdamW, clipping, nothing but steps."""
    return {
        "model.num_layers": w["layers"], "model.num_attention_heads": w["heads"], "model.hidden_size": w["hidden"],
        "model.vocab_size": w["vocab"], "model.bias": "true" if w["bias"] else "false", "model.tied_head": "true",
        "model.dropout": 0, "data.format": "synthetic", "data.seq_length": w["length"],
        # The evaluation at the end takes the whole split: one sample of 1024 tokens.
        "data.split": 0.995,
        "train.global_batch_size": w["batch"], "train.steps": w["warmup"] + w["steps"],
        "optimizer.grad_clip": 1.0, "optimizer.weight_decay": 0.1, "optimizer.lr": 1e-4,
        "lr_schedule.kind": "constant", "lr_schedule.warmup_steps": 0,
        "memory.activation_checkpointing": "selective" if w.get("recompute") else "none",
        "checkpoint.interval_minutes": 0, "eval.batches": 1, "eval.interval_steps": 0, "sample.tokens": 0,
    }  # fmt: skip


def empty_config(scratch):
    """A configuration in which nothing is settled."""
    path = os.path.join(scratch, "empty.yaml")
    with open(path, "w", encoding="utf-8") as config:
        config.write("run: {name: bench}\n")
    return path


def fourfold_run(binary, settings, scratch, extra, flags=(), environment=None, launcher=(), most_s=None):
    """One run, a process of its own: its folder and its peak memory in bytes. `extra` are texts for --set, `launcher` the words
    that start the ranks. It is ended after `most_s` seconds."""
    run_dir = os.path.join(scratch, "run")
    command = [*launcher, binary, "train", empty_config(scratch), "--overwrite", "--no-weights", *flags]
    for text in [*(f"{key}={value}" for key, value in settings.items()), f"run.dir={run_dir}", *extra]:
        command += ["--set", text]
    process = start_process(command, most_s is not None, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)  # fmt: skip
    with bounded(process, most_s):
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Stopped(f"{SCRIPT}: {' '.join(command)}\nended with code {process.returncode}:\n{output}")
    return run_dir, usage.ru_maxrss * 1024


def steps_of(run_dir, warmup):
    """The lines of a run's metrics behind its warm-up."""
    with open(os.path.join(run_dir, "metrics.jsonl"), encoding="utf-8") as metrics:
        return [json.loads(line) for line in metrics][warmup:]


def output_of(command, most_s=None):
    """Standard output of a command that must succeed, and is ended after `most_s` seconds."""
    process = start_process(command, most_s is not None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with bounded(process, most_s):
        output, errors = process.communicate()
    if process.returncode != 0:
        raise Stopped(f"{SCRIPT}: `{' '.join(command)}` ended with code {process.returncode}: {errors}")
    return output


def choose_workloads(text, workloads):
    """The names in a comma-separated text."""
    names = text.split(",")
    for name in names:
        if name not in workloads:
            fail(f"unknown workload {name}; choose of {', '.join(workloads)}")
    return names


def range_text(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"

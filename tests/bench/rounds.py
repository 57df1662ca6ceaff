"""What the recipes scripts/bench-* share: options, programs that take turns, figures of their rounds, and the page of them."""
import argparse
import dataclasses
import json
import os
import shlex
import statistics

from peers import ROOT, choose_workloads, fail, fourfold_run, range_text, steps_of

# Tells glibc to keep what a program gives back: PyTorch asks for the same memory in each step.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 33), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 26)}


@dataclasses.dataclass
class Rounds:
    """Seconds a step in each round, and the most bytes of memory, by program."""

    times: dict
    memory: dict

    def ratios(self, other, own):
        """How many times the time of `own` the other one took, round by round: a machine that grows slower meets both."""
        return [a / b for a, b in zip(self.times[other], self.times[own])]

    def ratio_text(self, other, own):
        return range_text(self.ratios(other, own), ".2f")

    def ms_text(self, name, form=".0f"):
        return range_text([1e3 * seconds for seconds in self.times[name]], form)

    def mib(self, name):
        return self.memory[name] / 2**20


def start_peers(label, flags_of, start):
    """PyTorch in each of its settings, by name: `start` makes one of its flags, which takes minutes where it compiles."""
    peers = {}
    for name, flags in flags_of.items():
        print(f"{label}starting PyTorch, {name}", flush=True)
        peers[name] = start(flags)
    return peers


def take_turns(label, programs, rounds):
    """Runs each program once in each round, in their order. A program gives seconds a step, and bytes of memory at most."""
    result = Rounds({name: [] for name in programs}, dict.fromkeys(programs, 0))
    for turn in range(rounds):
        for name, program in programs.items():
            seconds, peak = program()
            result.times[name].append(seconds)
            result.memory[name] = max(result.memory[name], peak)
        line = ", ".join(f"{name} {1e3 * seconds[-1]:.0f}" for name, seconds in result.times.items())
        print(f"{label}round {turn + 1} of {rounds}, ms a step: {line}", flush=True)
    return result


def median_step(binary, settings, warmup, scratch, extra=(), flags=(), environment=None):
    """Median seconds of the steps of a run of Fourfold behind its warm-up, its peak memory in bytes, and its folder."""
    run_dir, peak = fourfold_run(binary, settings, scratch, list(extra), flags, environment)
    return statistics.median(line["step_time_s"] for line in steps_of(run_dir, warmup)), peak, run_dir


def parser(description, output, workloads=None):
    """Options that every recipe has; `output` is the page, in tests/bench/results unless --output says otherwise."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    if workloads:
        p.add_argument("--workloads", default=",".join(workloads), help="of " + ", ".join(workloads))
    p.add_argument("--binary", default=os.path.join(ROOT, "build/fourfold"))
    p.add_argument("-o", "--output", default=os.path.join(ROOT, "tests/bench/results", output), help=f"default: {output}, in tests/bench/results")
    p.set_defaults(known_workloads=workloads, load=os.getloadavg()[0])
    return p


def parse(p):
    """The options; `names` are those of the workloads. What cannot be measured ends the script with one line."""
    options = p.parse_args()
    if options.known_workloads:
        options.names = choose_workloads(options.workloads, options.known_workloads) if options.workloads else []
    if options.rounds < 1:
        fail("--rounds starts at 1")
    require_binary(options)
    return options


def require_binary(options):
    if not os.access(options.binary, os.X_OK):
        fail(f"{options.binary} is missing; run scripts/build or give --binary")


def command_text(script, options, defaults):
    """The command line that makes a page: the options that are not as by default, and settings of Fourfold."""
    words = [f"--{name} {shlex.quote(str(value))}" for name, value in sorted(vars(options).items())
             if name in defaults and value != defaults[name]]  # fmt: skip
    return " ".join([f"scripts/{script}", *words, *(f"--set {shlex.quote(text)}" for text in getattr(options, "set", []))])


def turned(names, turn):
    """The same names, another first in each round: none gains by its place."""
    return names[turn % len(names) :] + names[: turn % len(names)]


def busy_text(options):
    """What the page says of a machine that was not quiet before."""
    return f" The machine was busy (load {options.load:.1f} before): do not believe these figures." if options.load > 0.5 else ""


def write_page(path, text):
    """Prints a page, and writes it where there is a path."""
    print(text, end="")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        print(f"table: {path}")


def update_rows(script, path, figures):
    """Writes figures, by what a row reads, into the rows of scripts/repro/rows.jsonl that the script measures: each is a dict of
    what becomes of the row, with three digits."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if row["command"].startswith(f"scripts/{script}") and row["reads"] in figures:
            row.update({key: float(f"{value:.3g}") for key, value in figures[row["reads"]].items()})
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    os.replace(path + ".new", path)

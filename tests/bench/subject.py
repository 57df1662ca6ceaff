"""What a recipe scripts/bench-NAME states, and what all recipes do with it.

A Subject names its workloads and has a function that measures one: it starts programs, lets them take turns (rounds.py), requires
of the answer what must hold, and gives rows of figures (results.py). `main` reads the options, makes virtual hosts where the
subject wants them, measures the workloads one after another, and writes the rows of each into the data and the page.
"""
import argparse
import contextlib
import dataclasses
import functools
import json
import os
import shlex
import tempfile
from collections.abc import Callable

import papers
import peers
import results
import rounds
from processes import ROOT, fail, output_of, script
from virtual_hosts import Hosts, end_with_signals

RESULTS = os.path.join(ROOT, "tests/bench/results")
PLACES = ("binary", "output", "rows", "keep")  # options that say where something lies, which is no part of what was measured


@dataclasses.dataclass
class Subject:
    """What is measured. The text `about` says what a recipe does, for --help; its first paragraph begins a new page."""

    name: str  # of the page and the data in tests/bench/results
    title: str  # of the page
    about: str
    workloads: dict  # by name, what the function `measure` is called for
    measure: Callable  # (Bench, name of a workload): gives rows of Bench.row
    add_options: Callable = lambda parser: None
    settle: Callable = lambda options: None  # checks the options, and may change them
    where: Callable = lambda options: ""  # what is added to the CPU's name to say what was measured on
    hosts: Callable | None = None  # (options): arguments of Hosts; None: no virtual hosts
    chosen: str = "workloads"  # the option that names workloads
    has_papers: bool = False  # its figures stand in scripts/repro too
    rounds: int = 5


class Numbers(dict):
    """Workloads that are numbers. If they are open, others from 1 on may be asked for."""

    def __init__(self, *numbers, is_open=False):
        super().__init__({str(number): number for number in numbers})
        self.is_open = is_open

    def __contains__(self, name):
        return super().__contains__(name) or (self.is_open and name.isdigit() and int(name) > 0)


class Parser(argparse.ArgumentParser):
    """An option that cannot be read ends the recipe with one line."""

    def error(self, message):
        fail(message)


def from_one(text):
    """The type of an option that is a number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it starts at 1, not at '{text}'")
    return int(text)


def parse(subject, words=None):
    """The options; `names` are those of the workloads, `command` what a row says of how it was made."""
    p = Parser(description=subject.about, formatter_class=argparse.RawDescriptionHelpFormatter)
    page = os.path.join(RESULTS, subject.name + ".md")
    p.add_argument("--rounds", "--pairs", type=from_one, default=subject.rounds, help=f"default: {subject.rounds}")
    p.add_argument(f"--{subject.chosen}", default=",".join(subject.workloads), help="of " + ", ".join(subject.workloads))
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for Fourfold, may be repeated")
    p.add_argument("--binary", default=os.path.join(ROOT, "build/fourfold"))
    p.add_argument("-o", "--output", "--write", metavar="PAGE", default=page,
                   help=f"its data lie beside it (default: {subject.name}.md in tests/bench/results)")  # fmt: skip
    if subject.has_papers:
        p.add_argument("--rows", metavar="FILE", help="writes figures there too: scripts/repro/rows.jsonl")
    subject.add_options(p)
    options = p.parse_args(words)
    options.load = os.getloadavg()[0]
    options.command = command_text(options, vars(p.parse_args([])))
    text = getattr(options, subject.chosen)
    options.names = text.split(",") if text else []
    subject.settle(options)
    for name in options.names:
        if name not in subject.workloads:
            fail(f"--{subject.chosen}: unknown workload {name}; choose of {', '.join(subject.workloads)}")
    if not os.access(options.binary, os.X_OK):
        fail(f"{options.binary} is missing; run scripts/build or give --binary")
    return options


def command_text(options, defaults):
    """The command line that makes a row: the options that are not as by default, and settings of Fourfold."""
    words = [f"scripts/{script()}"]
    for name, value in sorted(vars(options).items()):
        if name in defaults and name not in (*PLACES, "set") and value != defaults[name]:
            words.append(f"--{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(str(value))}"))
    return " ".join(words + [f"--set {shlex.quote(text)}" for text in options.set])


class Bench:
    """What a subject measures with."""

    def __init__(self, subject, options, scratch, hosts):
        self.options, self.scratch, self.hosts = options, scratch, hosts
        self.machine = results.cpu_text() + subject.where(options)
        self.kept = {}  # what a subject needs to find once
        self.version = ""  # of PyTorch, where it takes part
        self.papers = {}  # figures by what rows of scripts/repro/rows.jsonl call them
        self.config = peers.empty_config(scratch)
        self.ends = contextlib.ExitStack()  # of PyTorch, with its workload

    @functools.cached_property
    def python(self):
        return peers.torch_python()

    def row(self, table, of, figures, note=""):
        """A row of results; `of` and `figures` as results.py has them."""
        busy = f"The machine was busy (load {self.options.load:.1f} before)." if self.options.load > 0.5 else ""
        note = " ".join(filter(None, [self.version, note, busy]))
        return results.row(table, self.machine, self.options.command, note, of, figures)

    def run(self, settings, warmup, flags=(), environment=None, launcher=()):
        """One run of Fourfold: its Sample, without the steps of the warm-up."""
        run_dir, peak = peers.fourfold_run(self.options.binary, settings, self.scratch, self.options.set, flags, environment,
                                           launcher)  # fmt: skip
        return peers.sample_of(run_dir, warmup, peak)

    def fourfold(self, words, launcher=()):
        """What a command of Fourfold prints; nothing is kept for other commands."""
        return output_of([*launcher, self.options.binary, *words], environment={"XDG_CACHE_HOME": os.devnull})

    def step(self, settings, launcher=()):
        """A Sample by `fourfold bench step`, of the threads of one process or the ranks that a launcher starts."""
        words = ["bench", "step", self.config, *["--job"] * bool(launcher), "--format", "json", *peers.sets(settings)]
        words += [word for text in self.options.set for word in ("--set", text)]
        return peers.Sample(json.loads(self.fourfold(words, launcher))["median_s"])

    def torch(self, name, w, environment, flags, script="torch_gpt.py"):
        """PyTorch for the workload that is being measured."""
        print(f"starting PyTorch, {name}", flush=True)
        peer = peers.Torch(self.python, w, environment, flags, script)
        self.ends.callback(peer.end)
        self.version = self.version or f"PyTorch {peer.version()}."
        return peer

    def turns(self, label, programs):
        return rounds.take_turns(f"{label}: ", programs, self.options.rounds)


def main(subject):
    """Measures all workloads that are asked for. What was measured of those before stands, if one fails."""
    options = parse(subject)
    end_with_signals()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        hosts = stack.enter_context(Hosts(os.path.join(scratch, "hosts"), **subject.hosts(options))) if subject.hosts else None
        bench = Bench(subject, options, scratch, hosts)
        for name in options.names:
            with bench.ends:
                rows = list(subject.measure(bench, name))
            results.keep(options.output, subject.title, subject.about.split("\n\n")[0], rows)
            print(results.drawn(rows, subject.name), flush=True)
    if subject.has_papers and options.rows:
        papers.update(options.rows, script(), bench.papers)
    print(f"table: {options.output}")

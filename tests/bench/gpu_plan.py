"""The options of scripts/bench-gpu, what they plan, and the page that is written while it is carried out."""
import argparse
import dataclasses
import os
import shlex
import sys
import tempfile
import time

import gpu_steps
import results
from gpu_rows import Ceiling, Measured, ceiling, rows
from processes import ROOT, Stopped, end_when_told, fail, output_of
from rounds import Allowed, Rounds

HALF_HOUR_S = 530  # for each workload
UNBOUNDED_S = 1e6  # days: as long as it takes


@dataclasses.dataclass
class Subject:
    """Workloads and their titles, what rows of Fourfold set, flags of PyTorch's, and what half an hour allows. A workload that has
    a `network` is one on pictures."""

    about: str
    workloads: dict
    titles: dict
    ours: dict
    peers: dict
    on_pictures: dict  # flags of PyTorch's rows for networks on pictures
    half_hour: dict  # (rounds, peers) by workload

    def ours_of(self, w):
        """The rows of Fourfold: pictures pass through no stream of residuals that has a type of its own."""
        return {key: own for key, own in self.ours.items() if "network" not in w or "precision.residual" not in own}

    def peers_of(self, w):
        return self.on_pictures if "network" in w else self.peers


def arguments(subject, words=None):
    p = argparse.ArgumentParser(description=subject.about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, help="5 where nothing is said")
    p.add_argument("--workloads", help=f"of {', '.join(subject.workloads)}; the first two where nothing is said")
    p.add_argument("--peers", help=f"of {', '.join(subject.peers)}; compiled where nothing is said")
    p.add_argument("--no-peer", dest="peers", action="store_const", const="", help="Fourfold alone")
    p.add_argument("--within", type=float, metavar="SECONDS", help="ends, with what was done, within this time")
    p.add_argument("--half-hour", action="store_true",
                   help="for a GPU that is lent for half an hour: 3 rounds beside `compiled`, of 1.5b 2 beside `blocks`, "
                   f"within {HALF_HOUR_S} s for each workload, unless another option says otherwise")  # fmt: skip
    p.add_argument("--candidate", action="append", default=[], metavar="NAME=KEY:VALUE[,KEY:VALUE...]",
                   help="a further row of Fourfold with these settings, in the same rounds; a KEY in capitals is a variable of "
                   "the environment; may be repeated")  # fmt: skip
    p.add_argument("--only-ours", metavar="NAMES", default=",".join(subject.ours),
                   help="which rows of Fourfold to measure, of " + ", ".join(subject.ours))  # fmt: skip
    p.add_argument("--no-table", dest="table", action="store_false", help="Fourfold with its built-in choice of kernels")
    p.add_argument("--binary", default=os.path.join(ROOT, "build-gpu/fourfold"))
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries out this script, with the workload tiny")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for Fourfold, may be repeated")
    p.add_argument("-o", "--output", metavar="PAGE", default=os.path.join(ROOT, "build-gpu/bench-gpu.md"),
                   help="its data lie beside it (default: build-gpu/bench-gpu.md)")  # fmt: skip
    return p.parse_args(words)


def chosen(option, text, known):
    """The names in a text with commas."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            fail(f"{option}: unknown {name}; choose of {', '.join(known)}")
    return names


def candidates_of(subject, texts):
    """From NAME=KEY:VALUE,... what is set, by name."""
    found = {}
    for text in texts:
        name, _, settings = text.partition("=")
        pairs = [setting.partition(":") for setting in settings.split(",")]
        if not name or not all(key and colon for key, colon, _ in pairs):
            fail(f"--candidate is '{text}'; expected NAME=KEY:VALUE[,KEY:VALUE...]")
        if name in found or name in subject.ours or name in subject.peers:
            fail(f"--candidate: the name {name} is taken; choose another")
        found[name] = {key: value for key, _, value in pairs}
    return found


def planned(subject, options, candidates):
    """What is to be measured, by workload, and nothing of it known yet."""
    ours = chosen("--only-ours", options.only_ours, subject.ours)
    if not ours and not candidates:
        fail("--only-ours leaves no row of Fourfold; name one, or give a --candidate")
    titles = {name: f"Fourfold, {name}: {', '.join(f'{key} {value}' for key, value in own.items())}"
              for name, own in candidates.items()}  # fmt: skip
    plan = []
    workloads = options.workloads or ("tiny" if options.device == "cpu" else "124m,1.5b")
    for name in chosen("--workloads", workloads, subject.workloads):
        rounds, wanted = subject.half_hour[name] if options.half_hour else (5, "compiled")
        rounds = rounds if options.rounds is None else options.rounds
        if rounds < 1:
            fail("--rounds starts at 1")
        w = subject.workloads[name]
        rows_of_ours = [key for key in ours if key in subject.ours_of(w)]
        if not rows_of_ours and not candidates:
            fail(f"--only-ours leaves no row of {name}; choose of {', '.join(subject.ours_of(w))}")
        asked = chosen("--peers", wanted if options.peers is None else options.peers, subject.peers)
        programs = [*rows_of_ours, *candidates, *chosen(f"--peers of {name}", ",".join(asked), subject.peers_of(w))]
        plan.append(Measured(name, w, Rounds({key: [] for key in programs}, rounds), titles,
                             why_not="not yet" if "ours" in ours else "the row `ours` was left out"))  # fmt: skip
    return plan


def settled(subject):
    """Options, candidates and plan, or one line that says what is wrong."""
    options = arguments(subject)
    candidates = candidates_of(subject, options.candidate)
    plan = planned(subject, options, candidates)
    if options.within is not None and options.within <= 0:
        fail("--within takes seconds")
    if not os.access(options.binary, os.X_OK):
        fail(f"{options.binary} is missing; run scripts/gpu-check --only build, or give --binary")
    return options, candidates, plan


def command_text(words):
    """The command line that makes a row, without options that say where something lies."""
    kept, left = ["scripts/bench-gpu"], iter(words)
    for word in left:
        if word in ("--binary", "-o", "--output"):
            next(left, None)
        elif not word.startswith(("--binary=", "--output=")):
            kept.append(shlex.quote(word))
    return " ".join(kept)


def require_torch(python, device, most_s):
    sees = "import torch" + ("; assert torch.cuda.is_available()" if device == "cuda" else "")
    try:
        output_of([python, "-c", sees], most_s)
    except (Stopped, FileNotFoundError):
        fail(f"{python} has no PyTorch that sees the GPU; set TORCH_PYTHON to one, or give --no-peer")


def main(subject):
    begin_s = time.monotonic()
    options, candidates, plan = settled(subject)
    within_s = options.within or (HALF_HOUR_S * len(plan) if options.half_hour else UNBOUNDED_S)
    limit = Ceiling("A GPU whose ceilings are not known" if options.device == "cuda" else "This machine's CPU")
    python = os.environ.get("TORCH_PYTHON", "python3")
    command = command_text(sys.argv[1:])

    def write():
        found = list(rows(plan, subject.titles, limit, command))
        results.save(options.output, "Training steps on a GPU", subject.about.split("\n\n", 1)[0], found)
        return found

    end_when_told(f"it was told to end; what it had measured stands in {options.output}")
    write()
    start = Allowed(begin_s + within_s)
    if options.device == "cuda":
        try:
            limit = ceiling(output_of([options.binary, "bench", "copy", "--device", "cuda"], start.most_s("copy")))
        except Stopped as stopped:
            plan[0].remarks.append(f"`fourfold bench copy`: {stopped.reason()}")
        write()
    if any(map(Measured.peers, plan)):
        require_torch(python, options.device, start.most_s("look"))
    with tempfile.TemporaryDirectory() as scratch:
        bench = gpu_steps.Bench(options.binary, python, options, {**subject.ours, **candidates}, subject.peers_of, scratch, write)
        for place, measured in enumerate(plan):
            now_s = time.monotonic()
            gpu_steps.measure(bench, measured, Allowed(now_s + (start.ends_s - now_s) / (len(plan) - place)))
    print(results.drawn(write(), "bench-gpu"), end="")
    print(f"table: {options.output}")
    sys.exit(1 if any(map(Measured.has_failed, plan)) else 0)

"""The figures of scripts/bench-gpu, from what it measured; runs nothing itself."""
import dataclasses
import re
import statistics

import gpt_shapes
import picture_shapes
import results
from rounds import Rounds

OURS, EARLY, WIDE = "ours", "early", "wide"
PROGRAMS = {OURS: "Fourfold", EARLY: "Fourfold, kernels begin early", WIDE: "Fourfold, residual stream in fp32"}
STREAMS = 0.01  # of a loss: what a residual stream in bf16 may change in it
MOST_NAMED = 25  # kernels of a step


@dataclasses.dataclass
class StepKernels:
    """What one step does on the GPU; seconds."""

    busy_s: float  # in which at least one kernel or copy runs: median over steps
    count: int  # kernels and copies
    by_name: dict  # seconds of all kernels of a name, and how many they are: means over steps


@dataclasses.dataclass
class Measured:
    """What is known of one workload by now."""

    name: str
    w: dict
    rounds: Rounds
    titles: dict = dataclasses.field(default_factory=dict)  # of further rows of Fourfold
    kernels: StepKernels | None = None
    why_not: str = "not yet"  # there are no kernels
    remarks: list = dataclasses.field(default_factory=list)  # what failed beside the rows
    version: str = ""  # PyTorch's

    def who(self, key):
        return self.titles.get(key) or PROGRAMS.get(key, f"PyTorch {key}")

    def is_peer(self, key):
        return key not in PROGRAMS and key not in self.titles

    def peers(self):
        return [key for key in self.rounds.samples if self.is_peer(key)]

    def fail(self, key, why):
        self.rounds.failed.add(key)
        self.rounds.notes[key] = why

    def has_failed(self):
        return bool(self.rounds.failed or self.remarks)


@dataclasses.dataclass
class Ceiling:
    """What `fourfold bench copy --device cuda` says of a GPU; no peak where its data sheet is not known."""

    device: str
    copy_bytes_per_s: float | None = None
    peak_flops_per_s: float | None = None

    def text(self):
        peak = f"peak {self.peak_flops_per_s / 1e12:.0f} TFLOP/s in bf16" if self.peak_flops_per_s else "peak not known"
        copy = f"copy {self.copy_bytes_per_s / 1e12:.2f} TB/s" if self.copy_bytes_per_s else "copy not known"
        return f"{self.device}, {peak}, {copy}"


def ceiling(text):
    """Reads the output of `fourfold bench copy --device cuda`."""
    lines = text.splitlines()
    copies = [float(rate) for rate in re.findall(r"^copy .* ([\d.]+) GB/s", text, re.MULTILINE)]
    if not lines or not copies:
        raise ValueError(f"`fourfold bench copy --device cuda` printed no rate of a copy:\n{text}")
    peak = re.search(r"^peak: bf16 ([\d.]+),", text, re.MULTILINE)
    return Ceiling(lines[0].split(",")[0], 1e9 * max(copies), 1e12 * float(peak[1]) if peak else None)


def model_flops(w):
    """Of a step, without recomputation: of a GPT as Narayanan et al. 2021 (arXiv:2104.04473, eq. 3) count them, of a Llama alike."""
    if "network" in w:
        return picture_shapes.model_flops(w)
    b, s, l, h, v = w["batch"], w["length"], w["layers"], w["hidden"], w["vocab"]
    weights = 12 * h * h  # of the products of a layer
    if gpt_shapes.is_llama(w):
        weights = h * h * (2 + 2 * w["groups"] / w["heads"]) + 3 * h * w["ffn"]
    return 6 * b * s * (l * weights + v * h) + 12 * b * s * s * l * h


def busy_ns(intervals):
    """The length of the union of intervals (first, last)."""
    total, until = 0, None
    for first, last in sorted(intervals):
        if until is None or first > until:
            total, until = total + last - first, last
        elif last > until:
            total, until = total + last - until, last
    return total


def step_kernels(lines):
    """From the lines of tests/bench/kernel_times.cpp. A step is a launch of a graph, the largest kind there is; the first launch
    of each graph is left out: libraries load then. None where no graph was launched twice."""
    launches = {}
    for line in lines:
        launch, graph, first, last, name = line.rstrip("\n").split("\t", 4)
        if graph != "0":
            launches.setdefault(int(launch), (graph, []))[1].append((int(first), int(last), name))
    largest = max((len(rows) for _, rows in launches.values()), default=0)
    seen, steps = set(), []
    for graph, rows in (launches[launch] for launch in sorted(launches)):
        if len(rows) == largest and graph in seen:
            steps.append(rows)
        seen.add(graph)
    if not steps:
        return None
    by_name = {}
    for first, last, name in (row for rows in steps for row in rows):
        seconds, count = by_name.get(name, (0, 0))
        by_name[name] = (seconds + 1e-9 * (last - first) / len(steps), count + 1 / len(steps))
    busy = statistics.median(busy_ns([row[:2] for row in rows]) for rows in steps)
    return StepKernels(1e-9 * busy, largest, by_name)


def short_name(name, most=90):
    """Without what a demangled name has of parameters, and not wider than a table bears."""
    name = name.replace("(anonymous namespace)::", "").replace("|", "/").removeprefix("void ")
    depth = 0
    for place in reversed(range(len(name)) if name.endswith(")") else ()):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            name = name[:place]
            break
    return name if len(name) <= most else name[: most - 3] + "..."


def wrong_answers(measured):
    """What is wrong with the first losses: kernels that begin early change no bit, a stream in another type little, and another
    program's random weights as little as they do."""
    rounds, found = measured.rounds, []
    shapes = picture_shapes if "network" in measured.w else gpt_shapes
    known = [key for key, samples in rounds.samples.items() if samples]
    for key in known if OURS in known else ():
        one, ours = rounds.first_loss(key), rounds.first_loss(OURS)
        most = shapes.loss_tolerance(measured.w) if measured.is_peer(key) else 0 if key == EARLY else STREAMS
        if not abs(one - ours) <= most * abs(ours):
            found.append(f"the first loss of `{measured.who(key)}` is {one}, and {ours} of Fourfold")
    return found


def step_figures(measured, key, peak_flops_per_s):
    """A program's figures; without rounds only why there are none."""
    rounds, w = measured.rounds, measured.w
    done = len(rounds.times(key))
    why = rounds.notes.get(key, "the command had not ended when this was written")
    counted = {"rounds": done if done == rounds.asked else f"{done} of {rounds.asked}: {why}"}
    if not done:
        return {"step_ms": None, **counted}
    flops_per_s = model_flops(w) / rounds.median_s(key)
    names = {"times_as_fast": OURS} if "network" in w else {"times_as_fast": OURS, "times_as_fast_with_fp32_stream": WIDE}
    beside = {name: rounds.ratio(key, own) if measured.is_peer(key) or key in measured.titles else None
              for name, own in names.items()}  # fmt: skip
    items, count = ("pictures", w["batch"]) if "network" in w else ("tokens", w["batch"] * w["length"])
    return {"step_ms": rounds.step_ms(key), f"{items}_per_s": count / rounds.median_s(key), **beside,
            "TFLOP_per_s": flops_per_s / 1e12, "MFU_%": peak_flops_per_s and 100 * flops_per_s / peak_flops_per_s,
            "memory_GiB": rounds.peak_bytes(key) / 2**30, **counted}  # fmt: skip


def kernel_figures(measured):
    """How much longer a step is than its kernels."""
    ours = measured.rounds.times(OURS)
    if measured.kernels is None or not ours:
        return {"step_ms": 1e3 * statistics.median(ours) if ours else None, "kernels": f"not measured: {measured.why_not}"}
    step_s, busy_s = statistics.median(ours), measured.kernels.busy_s
    return {"step_ms": 1e3 * step_s, "in_kernels_ms": 1e3 * busy_s, "kernels": measured.kernels.count,
            "beyond_kernels_%": 100 * (step_s / busy_s - 1)}  # fmt: skip


def profile(kernels):
    """Of the kernels that take longest, and all others together: name and figures."""
    ordered = sorted(kernels.by_name.items(), key=lambda item: -item[1][0])
    shown, others = ordered[:MOST_NAMED], [figures for _, figures in ordered[MOST_NAMED:]]
    if others:
        shown.append((f"{len(others)} others", tuple(map(sum, zip(*others)))))
    total = sum(seconds for seconds, _ in kernels.by_name.values())
    for name, (seconds, count) in shown:
        yield short_name(name), {"calls": count, "step_ms": 1e3 * seconds, "of_all_%": 100 * seconds / total}


def rows(all_measured, titles, limit, command):
    """All of it, as it is by now."""
    note = next((f"PyTorch {measured.version}." for measured in all_measured if measured.version), "")

    def row(table, of, figures):
        return results.row(table, limit.text(), command, note, of, figures)

    for measured in all_measured:
        table = "Training steps on pictures beside PyTorch's" if "network" in measured.w else "Training steps beside PyTorch's"
        for key in measured.rounds.samples:
            yield row(table, {"workload": titles[measured.name], "program": measured.who(key)},
                      step_figures(measured, key, limit.peak_flops_per_s))  # fmt: skip
    for measured in all_measured:
        for remark in measured.remarks:
            yield row("Remarks", {"workload": titles[measured.name]}, {"remark": remark})
    for measured in all_measured:
        yield row("Where a step is longer than its kernels", {"workload": titles[measured.name]}, kernel_figures(measured))
    for measured in all_measured:
        for name, figures in profile(measured.kernels) if measured.kernels else ():
            yield row("Kernels of a step", {"workload": titles[measured.name], "kernel": name}, figures)

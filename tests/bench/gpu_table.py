"""The figures and the table of scripts/bench-gpu, from what it measured; runs nothing itself."""
import dataclasses
import re
import statistics

from peers import range_text

GPT2 = dict(vocab=50304, bias=1, length=1024, warmup=10)
WORKLOADS = {
    "124m": dict(GPT2, layers=12, heads=12, hidden=768, batch=16, steps=40),
    "1.5b": dict(GPT2, layers=48, heads=25, hidden=1600, batch=8, steps=10),
    "tiny": dict(vocab=1024, bias=1, length=64, warmup=2, layers=2, heads=2, hidden=64, batch=2, steps=4),  # tries out the script
}
TITLES = {"124m": "GPT-2 124M, 16 x 1024 tokens", "1.5b": "GPT-2 1.5B, 8 x 1024 tokens", "tiny": "a tiny GPT, 2 x 64 tokens"}
OURS = {  # Fourfold, by what is set besides: keys of the configuration, and variables of the environment
    "ours": {},
    "early": {"FOURFOLD_EARLY_LAUNCH": "1"},
    "wide": {"precision.residual": "fp32"},
}
PROGRAMS = {
    "ours": "**Fourfold**",
    "early": "**Fourfold**, kernels begin early",
    "wide": "**Fourfold**, residual stream in fp32",
}
COMPARED = ("ours", "wide")  # with others


@dataclasses.dataclass
class Measured:
    """Of one workload: seconds a step in each round and bytes of memory, by program; Fourfold's kernels, or why there are none. A
    program that failed runs no further rounds, so the first rounds are those of all programs."""

    name: str
    times: dict
    memory: dict
    kernels: "StepKernels | None"
    why_not: str = ""
    rounds: int = 0  # that were asked for
    titles: dict = dataclasses.field(default_factory=dict)  # of further rows of Fourfold
    notes: dict = dataclasses.field(default_factory=dict)  # why a program has fewer rounds
    remarks: list = dataclasses.field(default_factory=list)
    failed: set = dataclasses.field(default_factory=set)
    version: str = ""  # PyTorch's

    def fail(self, key, why):
        self.failed.add(key)
        self.notes[key] = why

    def remark(self, key, what):
        """Something beside the rows failed."""
        self.failed.add(key)
        self.remarks.append(what)

    def who(self, key):
        return self.titles.get(key) or PROGRAMS.get(key, f"PyTorch {key}")


def planned(name, programs, rounds, titles):
    """A workload of which nothing is measured yet."""
    times = {key: [] for key in programs}
    why_not = "not yet" if "ours" in times else "the row `ours` was left out"
    return Measured(name, times, dict.fromkeys(times, 0), None, why_not, rounds, titles)


@dataclasses.dataclass
class Ceiling:
    """What `fourfold bench copy --device cuda` says of a GPU; no peak where its data sheet is not known."""

    device: str
    copy_bytes_per_s: float | None
    peak_flops_per_s: float | None


def model_flops(w):
    """Of a step, as Narayanan et al. 2021 (arXiv:2104.04473, eq. 3) count them without recomputation."""
    b, s, l, h, v = w["batch"], w["length"], w["layers"], w["hidden"], w["vocab"]
    return 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))


@dataclasses.dataclass
class StepKernels:
    """What one step does on the GPU; seconds."""

    busy_s: float  # in which at least one kernel or copy runs: median over steps
    count: int  # kernels and copies
    by_name: dict  # seconds of all kernels of a name, and how many they are: means over steps


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


def ceiling(text):
    """Reads the output of `fourfold bench copy --device cuda`."""
    lines = text.splitlines()
    copies = [float(rate) for rate in re.findall(r"^copy .* ([\d.]+) GB/s", text, re.MULTILINE)]
    if not lines or not copies:
        raise ValueError(f"`fourfold bench copy --device cuda` printed no rate of a copy:\n{text}")
    peak = re.search(r"^peak: bf16 ([\d.]+),", text, re.MULTILINE)
    return Ceiling(lines[0].split(",")[0], 1e9 * max(copies), 1e12 * float(peak[1]) if peak else None)


def ratio_text(peer, own):
    """How many times the time of `own` a peer takes, round by round."""
    return range_text([a / b for a, b in zip(peer, own)], ".2f") if own and peer else "-"


def step_rows(measured, limit):
    w = WORKLOADS[measured.name]
    tokens, flops = w["batch"] * w["length"], model_flops(w)
    rows = []
    for key, values in measured.times.items():
        if not values:
            rows.append(f"| {TITLES[measured.name]} | {measured.who(key)} | - | - | | | - | - | - |")
            continue
        median = statistics.median(values)
        ratios = [ratio_text(values, measured.times.get(own, [])) if key not in OURS else "" for own in COMPARED]
        share = f"{100 * flops / median / limit.peak_flops_per_s:.1f} %" if limit.peak_flops_per_s else "-"
        rows.append(f"| {TITLES[measured.name]} | {measured.who(key)} | {range_text([1e3 * v for v in values], '.1f')} "
                    f"| {tokens / median:.0f} | {' | '.join(ratios)} "
                    f"| {flops / median / 1e12:.0f} | {share} | {measured.memory[key] / 2**30:.1f} |")  # fmt: skip
    return rows


def short_rows(measured):
    """Which programs have fewer rounds than were asked for, and why; what else is to be known of a workload."""
    title = TITLES[measured.name]
    found = [f"- {title}, {measured.who(key)}: {len(values)} of {measured.rounds} rounds: "
             + measured.notes.get(key, "the command had not ended when this was written")
             for key, values in measured.times.items() if len(values) < measured.rounds]  # fmt: skip
    return found + [f"- {title}: {remark}" for remark in measured.remarks]


def gap_row(measured):
    title = TITLES[measured.name]
    values = measured.times.get("ours")
    step = f"{1e3 * statistics.median(values):.2f}" if values else "-"
    if measured.kernels is None or not values:
        return f"| {title} | {step} | not measured: {measured.why_not} | | |"
    step_s = statistics.median(values)
    busy_s = measured.kernels.busy_s
    beyond = 100 * (step_s / busy_s - 1)
    return f"| {title} | {step} | {1e3 * busy_s:.2f} | {measured.kernels.count} | {beyond:.1f} % |"


def profile_rows(measured, most=25):
    """The kernels that take longest, and all others."""
    if measured.kernels is None:
        return []
    ordered = sorted(measured.kernels.by_name.items(), key=lambda item: -item[1][0])
    shown, others = ordered[:most], [figures for _, figures in ordered[most:]]
    if others:
        shown.append((f"{len(others)} others", tuple(map(sum, zip(*others)))))
    total = sum(seconds for seconds, _ in measured.kernels.by_name.values())
    return [f"| {TITLES[measured.name]} | `{short_name(name)}` | {count:.0f} | {1e3 * seconds:.2f} | {100 * seconds / total:.1f} % |"
            for name, (seconds, count) in shown]  # fmt: skip


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


def page(all_measured, limit, words):
    """All of it, as it is by now; `words` are those of the command."""
    peak = f"peak {limit.peak_flops_per_s / 1e12:.0f} TFLOP/s in bf16" if limit.peak_flops_per_s else "peak not known"
    copy = f"copy {limit.copy_bytes_per_s / 1e12:.2f} TB/s" if limit.copy_bytes_per_s else "copy not known"
    version = next((measured.version for measured in all_measured if measured.version), "")
    peer = f"; PyTorch {version}, fused attention and AdamW" if version else ""
    rows = [row for measured in all_measured for row in step_rows(measured, limit)]
    short = "".join(f"{line}\n" for measured in all_measured for line in short_rows(measured))
    if short:
        short = f"Fewer rounds than were asked for, and remarks:\n\n{short}\n"
    return f"""# Training steps on a GPU

{limit.device}, {peak}, {copy}; bf16 with float32 weights and moments{peer}. Made by
`scripts/bench-gpu {words}`: alternating rounds, medians of the rounds, (least-largest). A ratio above 1 means that
Fourfold (`ours`) is faster than the row; it is taken within a round. PyTorch's autocast keeps the residual stream in fp32, as Fourfold with
`precision.residual: fp32` does; by itself Fourfold keeps it in bf16, so there is a ratio to each.

| workload | program | ms a step | tokens/s | times as fast | with an fp32 stream | TFLOP/s | MFU | memory, GiB |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

{short}Where a step of Fourfold is longer than its kernels. Their time is that in which at least one kernel or copy ran, by the GPU's own
clock (CUPTI's records, `tests/bench/kernel_times.cpp`), in 8 other steps that were launched as the timed ones are, as graphs:

| workload | ms a step | ms in kernels | kernels and copies | beyond them |
|---|---|---|---|---|
{chr(10).join(gap_row(measured) for measured in all_measured)}

| workload | kernel | times | ms a step | of all |
|---|---|---|---|---|
{chr(10).join(row for measured in all_measured for row in profile_rows(measured))}

- TFLOP/s and MFU count model flops, 72 B s l h^2 (1 + s/6h + V/12lh), for both programs (Narayanan et al. 2021).
- Memory is what Fourfold's programs take, and what PyTorch had allocated at most.
"""

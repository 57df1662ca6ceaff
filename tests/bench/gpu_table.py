"""The figures and the table of scripts/bench-gpu, from what it measured; runs nothing itself."""
import dataclasses
import re
import statistics

from peers import range_text

GPT2 = dict(vocab=50304, bias=1, length=1024, warmup=10)
WORKLOADS = {
    "124m": dict(GPT2, layers=12, heads=12, hidden=768, batch=16, steps=40),
    "1.5b": dict(GPT2, layers=48, heads=25, hidden=1600, batch=8, steps=10),
}
TITLES = {"124m": "GPT-2 124M, 16 x 1024 tokens", "1.5b": "GPT-2 1.5B, 8 x 1024 tokens"}
OURS = {"ours": {}, "wide": {"precision.residual": "fp32"}}  # Fourfold, by what is set besides
PROGRAMS = {"ours": "**Fourfold**", "wide": "**Fourfold**, residual stream in fp32"}


@dataclasses.dataclass
class Measured:
    """Of one workload: seconds a step in each round and bytes of memory, by program; seconds a step in Fourfold's kernels."""

    name: str
    times: dict
    memory: dict
    kernels_s: float


@dataclasses.dataclass
class Ceiling:
    """What `fourfold bench copy --device cuda` says of a GPU; no peak where its data sheet is not known."""

    device: str
    copy_bytes_per_s: float
    peak_flops_per_s: float | None


def model_flops(w):
    """Of a step, as Narayanan et al. 2021 (arXiv:2104.04473, eq. 3) count them without recomputation."""
    b, s, l, h, v = w["batch"], w["length"], w["layers"], w["hidden"], w["vocab"]
    return 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))


def kernels_s(summary):
    """From `trace summary --json`: seconds of a step in which the math stream works, mean over ranks."""
    return statistics.mean(rank["compute_s"] for rank in summary["ranks"])


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
    return range_text([a / b for a, b in zip(peer, own)], ".2f") if own else "-"


def step_rows(measured, limit):
    w = WORKLOADS[measured.name]
    tokens, flops = w["batch"] * w["length"], model_flops(w)
    rows = []
    for key, values in measured.times.items():
        median = statistics.median(values)
        ratios = [ratio_text(values, measured.times.get(own, [])) if key not in OURS else "" for own in OURS]
        who = PROGRAMS.get(key, f"PyTorch {key}")
        share = f"{100 * flops / median / limit.peak_flops_per_s:.1f} %" if limit.peak_flops_per_s else "-"
        rows.append(f"| {TITLES[measured.name]} | {who} | {range_text([1e3 * v for v in values], '.1f')} "
                    f"| {tokens / median:.0f} | {' | '.join(ratios)} "
                    f"| {flops / median / 1e12:.0f} | {share} | {measured.memory[key] / 2**30:.1f} |")  # fmt: skip
    return rows


def gap_row(measured):
    step_s = statistics.median(measured.times["ours"])
    beyond = 100 * (step_s / measured.kernels_s - 1)
    return (f"| {TITLES[measured.name]} | {1e3 * step_s:.2f} | {1e3 * measured.kernels_s:.2f} | {beyond:.1f} % |")


def page(all_measured, limit, version, rounds):
    peak = f"peak {limit.peak_flops_per_s / 1e12:.0f} TFLOP/s in bf16" if limit.peak_flops_per_s else "peak not known"
    peer = f"; PyTorch {version}, fused attention and AdamW" if version else ""
    rows = [row for measured in all_measured for row in step_rows(measured, limit)]
    return f"""# Training steps on a GPU

{limit.device}, {peak}, copy {limit.copy_bytes_per_s / 1e12:.2f} TB/s; bf16 with float32 weights and moments{peer}. Made by
`scripts/bench-gpu --rounds {rounds}`: alternating rounds, medians of the rounds, (least-largest). A ratio above 1 means that
Fourfold is faster; it is taken within a round. PyTorch's autocast keeps the residual stream in fp32, as Fourfold with
`precision.residual: fp32` does; by itself Fourfold keeps it in bf16, so there is a ratio to each.

| workload | program | ms a step | tokens/s | times as fast | with an fp32 stream | TFLOP/s | MFU | memory, GiB |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Where a step of Fourfold is longer than its kernels, from a timeline of 5 other steps (`train --trace 5`):

| workload | ms a step | ms in kernels | beyond them |
|---|---|---|---|
{chr(10).join(gap_row(measured) for measured in all_measured)}

- TFLOP/s and MFU count model flops, 72 B s l h^2 (1 + s/6h + V/12lh), for both programs (Narayanan et al. 2021).
- Memory is what Fourfold's programs take, and what PyTorch had allocated at most.
"""

"""What scripts/bench-cpu tells of training steps beside PyTorch's, and its options."""
import os

from gpt_shapes import WORKLOADS, draw, step_bytes, step_flops, title, tokens
from processes import fail
from step_profile import traced, works
from subject import from_one

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2",
        "DNNL_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}  # fmt: skip


def add_mkl(p):
    p.add_argument("--mkl-as-on-intel", action="store_true", help="PyTorch's MKL may use AVX-512 on any CPU")


def add_options(p):
    p.add_argument("--threads", type=from_one, default=len(os.sched_getaffinity(0)))
    p.add_argument("--random", type=int, default=0, metavar="N", help="shapes to draw beside the workloads")
    p.add_argument("--seed", type=int, default=1, help="of the shapes that are drawn")
    p.add_argument("--avx2", action="store_true", help="no newer instructions, in either program")
    add_mkl(p)
    p.add_argument("--bf16", action="store_true", help="bf16 beside fp32 and beside PyTorch's autocast to bf16")


def settle(options):
    if options.random < 0:
        fail("--random is a number of shapes, from 0 on")
    WORKLOADS.update(draw(options.random, options.seed))
    options.names += [f"random{number}" for number in range(1, options.random + 1)]
    if options.avx2:
        os.environ.update(AVX2)


def where(options):
    """What the machine is kept from, or helped to."""
    limits = ", instructions up to AVX2" * options.avx2 + ", MKL as on Intel" * options.mkl_as_on_intel
    return f", {options.threads} threads{limits}"


def rows(bench, w, rounds, limits, ours, settings):
    """Rows of a workload: its programs beside each other, then where a step of ours goes. The floor of a step is its operations
    at the rate of products, and then AdamW's bytes at that of memory; what is recomputed is not in it."""
    bf16 = bench.options.bf16
    kind = " in bf16" if bf16 else ""
    flops = step_flops(w)
    floor_s = limits.floor_s(flops, step_bytes(w, bf16))
    for key in rounds.samples:
        median_s = rounds.median_s(key)
        yield bench.row(f"Training steps beside PyTorch's{kind}", {"workload": title(w), "program": key}, {
            "step_ms": rounds.step_ms(key), "tokens_per_s": tokens(w) / median_s,
            "times_as_fast": None if key == ours else rounds.ratio(key, ours),
            "of_product_ceiling_%": 100 * flops / median_s / limits.flops_per_s, "over_floor": median_s / floor_s,
            "peak_MiB": rounds.peak_bytes(key) / 2**20,
        })  # fmt: skip
    peers = [rounds.ratio(key, ours) for key in rounds.samples if key.startswith("PyTorch")]
    _, summary = traced(bench, settings)
    told = works(summary)
    yield bench.row(f"Where a step of Fourfold goes{kind}", {"workload": title(w)}, {
        "times_as_fast_as_best": min(peers, key=lambda ratio: ratio[0]), **told,
        "adamw_of_triad_%": told["adamw_GB_per_s"] and 1e11 * told["adamw_GB_per_s"] / limits.bytes_per_s,
        "product_GFLOP_per_s": limits.flops_per_s / 1e9, "triad_GB_per_s": limits.bytes_per_s / 1e9,
    })  # fmt: skip

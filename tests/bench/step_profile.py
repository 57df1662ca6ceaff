"""What bounds a step on a CPU, and where it goes: the machine's ceilings, and the timeline of one step."""
import json
import os

from peers import fourfold_run
from processes import fail, output_of

LEFT_OUT = 2  # steps at the beginning that a timeline leaves out
WORKS = {"gemm": "products", "attention": "attention", "elementwise": "elementwise", "optimizer": "optimizer"}


class Ceilings:
    """Flops and bytes a second that a machine reaches, by `fourfold bench copy`: the best of all looks at it, since a disturbance
    only makes a ceiling smaller."""

    def __init__(self, binary, threads, bf16):
        self.command, self.column = [binary, "bench", "copy", "--threads", str(threads)], 5 if bf16 else 3
        self.flops_per_s = self.bytes_per_s = 0.0
        self.look()

    def look(self):
        fields = output_of(self.command).strip().splitlines()[-1].split()
        self.flops_per_s = max(self.flops_per_s, 1e9 * float(fields[self.column]))
        self.bytes_per_s = max(self.bytes_per_s, 1e9 * float(fields[2]))

    def floor_s(self, flops, moved):
        """The least that work of so many operations and bytes takes, one after the other."""
        return flops / self.flops_per_s + moved / self.bytes_per_s


def measured_table(bench, settings):
    """Settings for the table of kernels that a long run measures at its start: each further run takes this one."""
    run_dir, _ = fourfold_run(bench.options.binary, {**settings, "train.steps": 10**9}, bench.scratch, flags=["--stop-at", "1"],
                              environment={"XDG_CACHE_HOME": os.path.join(bench.scratch, "cache")})  # fmt: skip
    table = os.path.join(run_dir, "kernels.yaml")
    kept = os.path.join(bench.scratch, f"kernels-{settings['precision.compute']}.yaml")
    if not os.path.exists(table):
        fail(f"{run_dir} has no kernels.yaml")
    os.replace(table, kept)
    return {"run.kernel_table": kept}


def traced(bench, settings, steps=1, flags=(), launcher=()):
    """A run of Fourfold whose last steps are traced: its folder, and what `trace summary` says of them."""
    settings = {**settings, "train.steps": LEFT_OUT + steps}
    run_dir, _ = fourfold_run(bench.options.binary, settings, bench.scratch, bench.options.set, ["--trace", str(steps), *flags],
                              launcher=launcher)  # fmt: skip
    return run_dir, json.loads(output_of([bench.options.binary, "trace", "summary", "--json", run_dir]))


def of_step(summary, seconds):
    """A part of the step, in per cent."""
    return 100 * seconds / summary["step_s"]


def works(summary):
    """Figures of one step of one rank: its works in per cent, and the rate of AdamW."""
    parts = {part["work"]: part["amount"]["seconds"] for part in summary["ranks"][0]["parts"] if part["stream"] == "math"}
    shares = {f"{name}_%": of_step(summary, parts.get(work, 0.0)) for work, name in WORKS.items()}
    adamw = [one["amount"] for one in summary["operations"] if one["what"].startswith("adamw")]
    seconds = sum(amount["seconds"] for amount in adamw)
    rate = sum(amount["bytes"] for amount in adamw) / seconds / 1e9 if seconds else None
    return {"products_and_attention_%": shares["products_%"] + shares["attention_%"], **shares, "adamw_GB_per_s": rate}


def operations(summary, most=17):
    """Of the operations that take longest, what each is, by whom, and its figures."""
    timed = [one for one in summary["operations"] if one["amount"]["seconds"] > 0]
    for one in sorted(timed, key=lambda one: -one["amount"]["seconds"])[:most]:
        seconds, calls, flops, moved = (one["amount"][key] for key in ("seconds", "calls", "flops", "bytes"))
        yield {"operation": one["what"], "by": one["by"]}, {
            "step_ms": 1e3 * seconds, "of_step_%": of_step(summary, seconds), "calls": calls,
            "GFLOP_per_s": flops / seconds / 1e9, "GB_per_s": moved / seconds / 1e9,
        }  # fmt: skip

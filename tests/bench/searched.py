"""Layouts that are searched for beside those of strategies, for scripts/bench-layouts: what the simulator says of both on many
machines, and what they take on virtual hosts."""
import functools
import json
import os

from grids import AXES, grid_name, require_loss_of_one_rank
from peers import sets
from processes import ROOT, fail

# (configuration, machine, ranks, settings beside)
BF16 = {"precision.compute": "bf16"}
SYNTHETIC = {"data.format": "synthetic", "data.validation": '""', "data.flip": "false"}
VGG, SMALL_UNET = ({**SYNTHETIC, f"{kind}.picture": "[32, 32, 3]", f"{kind}.num_classes": 10} for kind in ("vgg", "unet"))
MACHINES = (
    ("gpt2-124m", "perlmutter-40gb", 8, BF16), ("gpt2-124m", "rhino-s1", 8, {}), ("gpt2-124m", "atp-ic1", 8, BF16),
    ("gpt2-124m", "workstation", 2, BF16), ("gpt2-124m", "dgx-h100", 16, BF16), ("gpt2-124m", "p3-8xlarge", 16, {}),
    ("gpt2-124m", "torus", 8, BF16), ("gpt2-124m", "atp-ic4", 4, {}), ("gpt-tiny", "two-core-cpu", 2, {}),
    ("gpt2-124m", "two-core-cpu", 2, {}), ("gpt2-1.5b", "alps-gh200", 8, BF16), ("paper/rhino-gpt-medium", "rhino-m8", 8, {}),
    ("paper/rhino-gpt-medium", "rhino-s1", 4, {}), ("vgg-tiny", "two-core-cpu", 2, VGG), ("paper/vgg19", "rhino-m8", 8, {}),
    ("paper/vgg19", "perlmutter-80gb", 4, {}), ("paper/vgg19", "p3-8xlarge", 8, {}), ("paper/vgg19", "rhino-s1", 4, {}),
    ("unet-cifar10-50m", "workstation", 2, SMALL_UNET), ("unet-cifar10-50m", "rhino-s1", 4, SMALL_UNET),
    ("paper/unet-250m", "perlmutter-80gb", 4, {}), ("paper/unet-250m", "atp-ic4", 4, {}),
)  # fmt: skip
GPT = {
    "model.num_layers": 2, "model.num_attention_heads": 8, "model.hidden_size": 256, "model.vocab_size": 2048,
    "model.tied_head": "true", "data.seq_length": 64,
}  # fmt: skip
UNET = {
    "model.kind": "unet", "unet.picture": "[16, 16, 3]", "unet.channels": 64, "unet.channel_mult": "[1, 2]",
    "unet.num_res_blocks": 1, "unet.attention_resolutions": "[8]", "unet.norm_groups": 8, "unet.num_classes": 5,
}  # fmt: skip
BESIDE = {
    "data.format": "synthetic", "train.global_batch_size": 8, "sample.tokens": 0, "checkpoint.interval_minutes": 0,
    "eval.batches": 1, "run.kernel_table": "builtin", "run.threads": 1, "parallel.pipeline.stages": 1,
}  # fmt: skip
MODELS = {"gpt": {**GPT, **BESIDE}, "unet": {**UNET, **{key: BESIDE[key] for key in BESIDE if key != "sample.tokens"}}}
STRATEGIES = {"searched": "auto", "axonn": "axonn"}  # by what plans of a list are called
AGAIN = "searched, again"


def words_of(layout, config, machine, ranks, settings, simulated):
    chosen = {**settings, "parallel.strategy": STRATEGIES[layout], "parallel.pipeline.stages": 1}
    return ["plan", config, "--machine", machine, "--ranks", str(ranks), "--top", "1000", "--simulate", str(simulated),
            "--format", "json", *sets(chosen)]  # fmt: skip


def simulated_plans(bench, layout, *what):
    """The plans of such a layout that are simulated and fit, the fastest first, by place in the list.
    A search may end at the layout of a strategy: one plan then is of both."""
    plans = json.loads(bench.fourfold(words_of(layout, *what)))["plans"]

    def is_asked(plan):
        return plan["layout"] == layout or (layout == "searched" and plan["is_searched_too"])

    found = {place: plan for place, plan in enumerate(plans, 1)
             if is_asked(plan) and (plan.get("simulated") or {}).get("fits")}  # fmt: skip
    if not found:
        fail(f"no plan of a {layout} layout fits {what[1]}")
    return found


def name_of(plan):
    return grid_name(tuple(plan[axis] for axis in AXES))


def simulated(bench, config, machine, ranks, settings):
    """Figures of both, as the simulator has them."""
    path = os.path.join(ROOT, "configs", config + ".yaml")
    own, other = (next(iter(simulated_plans(bench, layout, path, machine, ranks, settings, bench.options.simulated).values()))
                  for layout in STRATEGIES)  # fmt: skip
    a, b = (plan["simulated"]["step_s"] for plan in (own, other))
    return {"searched_ms": 1e3 * a, "on": name_of(own), "strategy_ms": 1e3 * b, "of": name_of(other), "ratio": a / b}


def settings_of(plan, model, layout=None):
    """What makes a run of a plan; `layout`: the file of one that was searched for."""
    tensor = ", ".join(f"{axis}: {plan[axis]}" for axis in AXES[:3])
    own = {"parallel.layout": layout} if layout else {}
    return {
        **MODELS[model], **own, "parallel.tensor": f"{{{tensor}}}", "parallel.data": plan["data"],
        "parallel.order": f"[{', '.join(plan['order'])}]", "train.micro_batch_size": plan["micro_batch_size"],
    }  # fmt: skip


def measured(bench, network, machine, launcher, ranks, model):
    """What the ranks of a launcher take for the plan that was searched for, twice, and for each grid of the strategy."""
    what = (bench.config, machine, ranks, MODELS[model], 1000)
    place, plan = next(iter(simulated_plans(bench, "searched", *what).items()))
    layout = os.path.join(bench.scratch, f"{model}.layout")
    bench.fourfold([*words_of("searched", *what), "-o", layout, "--choose", str(place)])
    own, hand_made = settings_of(plan, model, layout), {}
    for other in simulated_plans(bench, "axonn", *what).values():
        hand_made.setdefault(name_of(other), other)
    every = {"searched": own, AGAIN: own} | {name: settings_of(other, model) for name, other in hand_made.items()}
    for name, settings in every.items():
        require_loss_of_one_rank(bench, f"{model}, {name}", settings, MODELS[model])
    turns = {name: functools.partial(bench.step, settings, launcher) for name, settings in every.items()}
    rounds = bench.turns(f"{model} on {network}", turns)
    best = min(hand_made, key=rounds.median_s)
    apart = abs(rounds.ratio("searched", AGAIN)[0] - 1)
    beside = rounds.ratio("searched", best)
    return {"searched_ms": rounds.step_ms("searched"), "on": name_of(plan), "best_ms": rounds.step_ms(best),
            "best": best, "ratio": beside, "again": rounds.ratio("searched", AGAIN),
            "is_close": "yes" if beside[0] <= 1 + max(0.05, 2 * apart) else "no",
            "sent_mib": sent_mib(plan), "best_sent_mib": sent_mib(hand_made[best])}  # fmt: skip


def sent_mib(plan):
    """What a rank sends in a step."""
    return sum(entry["sent_bytes"] for entry in plan["traffic"]) / 2**20

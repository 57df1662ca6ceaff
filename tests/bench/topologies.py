"""What the planner says of the grids of a network, for scripts/bench-topologies, and how far it is from what was measured."""
import json
import os

from grids import AXES, agreement, grid_name
from peers import sets

MODEL = {
    "model.num_layers": 1, "model.num_attention_heads": 8, "model.hidden_size": 128, "model.vocab_size": 512,
    "model.tied_head": "true", "data.format": "synthetic", "data.seq_length": 32, "train.global_batch_size": 8,
    "sample.tokens": 0, "checkpoint.interval_minutes": 0, "eval.batches": 1, "run.kernel_table": "builtin",
    "run.threads": 1, "parallel.pipeline.stages": 1,
}  # fmt: skip
# What the planner chooses among: grids, and nothing beside them.
SEARCHES = {
    "axonn": {"parallel.strategy": "axonn", "memory.activation_checkpointing": "none"},
    "atp": {"parallel.strategy": "atp", "memory.activation_checkpointing": "none", "parallel.chunks": 1},
}
ONE_RANK = "one rank"
CLOSE = 0.05  # slower than the fastest by as much is as good


def measured_machine(bench, launcher):
    """The file of the hosts as a cluster."""
    path = os.path.join(bench.scratch, "machine.yaml")
    bench.fourfold(["bench", "machine", "--job", "--seconds", "0.05", "-o", path], launcher)
    return path


def axes_of(plan):
    return tuple(plan[axis] for axis in AXES)


def key(search, plan):
    return f"{search} {grid_name(axes_of(plan))}"


def first_of_each_grid(plans, search):
    """The planner's first plan of each grid, the fastest by its simulator first; of ATP those of tensor ranks alone."""
    firsts = {}
    for plan in plans:
        if "simulated" not in plan or (search == "atp" and plan["data"] > 1):
            continue
        firsts.setdefault(axes_of(plan), plan)
    return sorted(firsts.values(), key=lambda plan: plan["simulated"]["step_s"])


def plans(bench, machine, ranks, search):
    words = ["plan", bench.config, "--machine", machine, "--ranks", str(ranks), "--top", "1000", "--simulate", "1000", "--format",
             "json", *sets({**MODEL, **SEARCHES[search]})]  # fmt: skip
    return first_of_each_grid(json.loads(bench.fourfold(words))["plans"], search)


def simulated_one_rank_s(bench, machine):
    words = ["simulate", bench.config, "--machine", machine, "--ranks", "1", "--format", "json", *sets(MODEL)]
    return json.loads(bench.fourfold(words))["step_s"]


def settings_of(plan, search):
    tensor = ", ".join(f"{axis}: {plan[axis]}" for axis in AXES[:3])
    return {
        **MODEL, **SEARCHES[search], "parallel.tensor": f"{{{tensor}}}", "parallel.data": plan["data"],
        "parallel.order": f"[{', '.join(plan['order'])}]", "train.micro_batch_size": plan["micro_batch_size"],
    }  # fmt: skip


def choice(plans, seen):
    """Figures of the planner's first; `plans` are in its order, `seen` the measured seconds of each."""
    by_time = sorted(range(len(seen)), key=seen.__getitem__)
    by_formula = sorted(range(len(seen)), key=lambda i: plans[i]["seconds"]["step"])
    slower = seen[0] / min(seen) - 1
    figures = {"grids": len(seen), "first": grid_name(axes_of(plans[0])), "fastest": grid_name(axes_of(plans[by_time[0]])),
               "first_slower_%": 100 * slower, "is_close": "yes" if slower <= CLOSE else "no"}  # fmt: skip
    for name, order in (("simulator", list(range(len(seen)))), ("formula", by_formula)):
        figures |= {f"{name}_of_five": len(set(order[:5]) & set(by_time[:5])), f"{name}_place": order.index(by_time[0]) + 1}
    return figures


def rows(bench, name, search, plans, rounds, simulated_one_rank):
    """A row of the planner's choice, then one of each grid."""
    seen = [rounds.median_s(key(search, plan)) for plan in plans]
    told = [plan["simulated"]["step_s"] for plan in plans]
    yield bench.row(f"The planner's first by {search}", {"topology": name}, choice(plans, seen) | agreement(told, seen))
    for plan, measured_s, simulated_s in zip(plans, seen, told):
        of = {"topology": name, "grid": grid_name(axes_of(plan)), "order": " ".join(plan["order"])}
        yield bench.row(f"Grids by {search}", of, {
            "step_ms": rounds.step_ms(key(search, plan)), "simulated_ms": 1e3 * simulated_s,
            "formula_ms": 1e3 * plan["seconds"]["step"], "by_one_rank": rounds.ratio(key(search, plan), ONE_RANK)[0],
            "simulated_by_one_rank": simulated_s / simulated_one_rank, "error_%": 100 * (simulated_s / measured_s - 1),
        })  # fmt: skip

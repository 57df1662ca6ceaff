"""The switches that scripts/bench-overlap turns off and on, and what it tells of a run: what of its communication was hidden."""
import dataclasses
import statistics

from peers import ONLY_STEPS, sample_of
from processes import fail
from rounds import require_equal, require_near
from step_profile import LEFT_OUT, traced

# What all variants train.
SETTINGS = {
    **ONLY_STEPS, "model.num_layers": 4, "model.num_attention_heads": 8, "model.hidden_size": 384, "model.vocab_size": 4096,
    "model.bias": "false", "model.tied_head": "true", "model.dropout": 0, "data.seq_length": 128, "data.split": 0.995,
    "parallel.data": "auto", "optimizer.grad_clip": 1.0, "optimizer.lr": 1e-4, "sample.tokens": 0,
}  # fmt: skip
GRID_RANKS = 4  # of each grid below; more ranks are replicas. The axis that varies slowest over ranks lies between hosts.
TENSOR_BETWEEN = {"parallel.tensor": "{x: 2, z: 2}", "parallel.order": "[z, x, y, data]"}
WEIGHTS_BETWEEN = {"parallel.tensor": "{x: 2, z: 2}", "parallel.order": "[x, z, y, data]"}
GRADIENTS_BETWEEN = {"parallel.tensor": "{x: 2}", "parallel.order": "[x, y, z, data]"}
ROWS_AND_COLUMNS = {"parallel.strategy": "atp", "parallel.tensor": "{x: 2, y: 2}"}  # x lies between hosts
REPEATED = {"memory.activation_checkpointing": "full"}
NO_OVERLAP = {f"parallel.overlap.{name}": "false" for name in ("all_reduce", "reduce_scatter", "all_gather")}
ROUNDING = 1e-5  # of a loss: float32, summed in another order


@dataclasses.dataclass
class Switch:
    """What is set beside SETTINGS where a switch is off, where it is on, and in both."""

    off: dict
    on: dict
    both: dict
    same_bits: bool = True  # of the losses, with the switch off and on


SWITCHES = {
    **{name: Switch({f"parallel.overlap.{name}": "false"}, {f"parallel.overlap.{name}": "true"}, both) for name, both in
       (("all_reduce", TENSOR_BETWEEN), ("reduce_scatter", WEIGHTS_BETWEEN), ("all_gather", WEIGHTS_BETWEEN))},
    "overlap": Switch(NO_OVERLAP, {}, WEIGHTS_BETWEEN),
    "cached_gathers": Switch({"memory.cached_gathers": "none"}, {"memory.cached_gathers": 4}, WEIGHTS_BETWEEN | REPEATED),
    "buckets": Switch({"parallel.buckets": 0}, {}, GRADIENTS_BETWEEN, same_bits=False),
    "chunks_2": Switch({"parallel.chunks": 1}, {"parallel.chunks": 2}, ROWS_AND_COLUMNS, same_bits=False),
    "chunks_4": Switch({"parallel.chunks": 1}, {"parallel.chunks": 4}, ROWS_AND_COLUMNS, same_bits=False),
    "all": Switch(NO_OVERLAP | {"memory.cached_gathers": "none"}, {"memory.cached_gathers": 4}, WEIGHTS_BETWEEN | REPEATED),
}  # fmt: skip


def settle(options):
    if options.hosts * options.ranks % GRID_RANKS != 0:
        fail(f"the grids of the variants have {GRID_RANKS} ranks; --hosts times --ranks is {options.hosts * options.ranks}")


def run(bench, settings):
    """A run whose steps after the warm-up are traced: its Sample, with the traffic."""
    options, settings = bench.options, {**SETTINGS, "train.global_batch_size": bench.options.batch, **settings}
    run_dir, summary = traced(bench, settings, options.steps, launcher=bench.hosts.launcher(options.ranks))
    return dataclasses.replace(sample_of(run_dir, LEFT_OUT), traffic=summary["traffic"])


def require_answer(label, rounds, switch):
    """The same losses with the switch off and on, and no more bytes with it on."""
    if switch.same_bits:
        require_equal(label, {name: rounds.samples[name][0].losses for name in ("off", "on", "again")})
    require_near(label, rounds, "on", "off", ROUNDING)
    off, on = (sum(one["bytes"] for one in rounds.samples[name][0].traffic) for name in ("off", "on"))
    if on > off:
        fail(f"{label}a rank exchanges {on:.0f} bytes with the switch on, and {off:.0f} with it off")


def median_ms(rounds, name, key, traffic=None):
    """The time of a step that all traffic, or one class of it, took from a rank: the median of the rounds."""
    return 1e3 * statistics.median(sum(one[key] for one in sample.traffic if traffic in (None, one["traffic"]))
                                   for sample in rounds.samples[name])  # fmt: skip


def rows(bench, name, rounds):
    """A row of the switch, and one of each class of traffic with the switch off and on, of a step and rank."""
    figures = {"off_ms": rounds.step_ms("off")[0], "on_ms": rounds.step_ms("on")[0], "off_by_on": rounds.ratio("off", "on"),
               "again_by_on": rounds.ratio("again", "on")}  # fmt: skip
    for key in ("hidden", "exposed"):
        figures |= {f"{key}_{state}_ms": median_ms(rounds, state, f"{key}_s") for state in ("off", "on")}
    yield bench.row("A switch off and on", {"switch": name}, figures)
    for state in ("off", "on"):
        for one in rounds.samples[state][0].traffic:
            yield bench.row("By class of traffic", {"switch": name, "state": state, "traffic": one["traffic"]}, {
                "calls": one["calls"], "payload_MiB": one["bytes"] / 2**20,
                **{f"{key}_ms": median_ms(rounds, state, f"{key}_s", one["traffic"]) for key in ("hidden", "exposed")},
            })  # fmt: skip

"""Grids of ranks, what is predicted of them beside what was measured, and that they compute what one rank computes."""
from statistics import correlation, mean, median

from peers import fourfold_run, steps_of
from processes import fail

AXES = ("x", "y", "z", "data")
ROUNDING = 1e-5  # of a loss: float32, summed in another order


def grids_of(ranks):
    """All (x, y, z, data) whose product is `ranks`."""
    divisors = [n for n in range(1, ranks + 1) if ranks % n == 0]
    return [(x, y, z, ranks // (x * y * z)) for x in divisors for y in divisors for z in divisors if ranks % (x * y * z) == 0]


def grid_name(grid):
    return " ".join(f"{axis}{size}" for axis, size in zip(AXES, grid) if size > 1) or "one rank"


def require_loss_of_one_rank(bench, name, settings, one_rank):
    """The first step of a layout, whose ranks are threads of one process, has the loss of one rank but for rounding."""
    losses = []
    for own in (settings, one_rank):
        key = str(own)
        if key not in bench.kept:
            run_dir, _ = fourfold_run(bench.options.binary, {**own, "train.steps": 1000}, bench.scratch, bench.options.set,
                                      ["--stop-at", "1"])  # fmt: skip
            bench.kept[key] = steps_of(run_dir)[0]["loss"]
        losses.append(bench.kept[key])
    if not abs(losses[0] - losses[1]) <= ROUNDING * abs(losses[1]):
        fail(f"{name}: the loss of the first step is {losses[0]}, and {losses[1]} on one rank")


def ranked(values):
    """The rank of each value, the mean rank among equals."""
    order = sorted(values)
    return [mean(i for i, other in enumerate(order) if other == value) for value in values]


def spearman(a, b):
    """How alike two orders are, by Spearman's coefficient; 0 where one side says nothing of the order."""
    a, b = ranked(a), ranked(b)
    return correlation(a, b) if len(set(a)) > 1 and len(set(b)) > 1 else 0.0


def agreement(told, seen):
    """How well predictions are those that were measured."""
    errors = [abs(one / other - 1) for one, other in zip(told, seen)]
    return {"spearman": spearman(told, seen), "median_error_%": 100 * median(errors),
            "within_15_%": sum(error <= 0.15 for error in errors), "of": len(errors)}  # fmt: skip


def apart(a, b):
    """True if the rounds of one layout differ from those of the other by more than the spread of either."""
    return abs(median(a) - median(b)) > max(max(a) - min(a), max(b) - min(b)) / 2


def order_of_pairs(told, seen):
    """Among the pairs of layouts that the rounds tell apart: how many there are, and how many are predicted in their order."""
    pairs = [(i, j) for i in range(len(told)) for j in range(i) if apart(seen[i], seen[j])]
    medians = [median(ratios) for ratios in seen]
    alike = sum((told[i] - told[j]) * (medians[i] - medians[j]) > 0 for i, j in pairs)
    return {"pairs_apart": len(pairs), "predicted_in_order": alike}

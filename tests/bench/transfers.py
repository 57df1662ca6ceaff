"""What scripts/bench-reshard tells of `fourfold bench reshard`: planned and measured times of transfers in units of t, the time
in which a link passes the tensor."""
import dataclasses
import json
import math
import os

from processes import fail, output_of
from results import write

RANKS = 4  # of a host
UNITS = {"gbit": ("Gbit/s", 1e9), "mbit": ("Mbit/s", 1e6), "kbit": ("kbit/s", 1e3)}
SAME = 1.25  # planned times of two strategies are the same, as near as that, and no order of them is expected


@dataclasses.dataclass
class Transfer:
    """One way to pass a tensor."""

    strategy: str
    planned: float  # times t
    measured: float  # the least of the rounds

    def figures(self):
        return {"planned_t": self.planned, "measured_t": self.measured}


def add_options(p):
    # So slow that 20 ranks on two cores have nothing to do for most of the time: what is measured is links.
    p.add_argument("--rate", default="10mbit", help="of a link (default 10mbit)")
    p.add_argument("--bytes", type=int, default=1 << 20, help="of a tensor, a power of two from 65536 (default 1048576)")
    p.add_argument("--seconds", type=float, default=1.0, help="to measure each transfer for, at least three times (default 1)")
    p.add_argument("--overhead", default="1 ms", help="of each message, for the plan (default '1 ms')")
    p.add_argument("--keep", metavar="FILE", help="keeps results there, and measures nothing again that it has")


def settle(options):
    for letters, (unit, bits_per_s) in UNITS.items():
        number = options.rate.removesuffix(letters)
        if number != options.rate and number.isdigit():
            options.rate_words, options.bits_per_s = f"{number} {unit}", float(number) * bits_per_s
            break
    else:
        fail(f"--rate {options.rate}: expected a rate such as 200mbit")
    if options.bytes < 65536 or options.bytes & (options.bytes - 1):
        fail("--bytes is a power of two from 65536")


def command_of(bench, words):
    options = bench.options
    return [*bench.hosts.launcher(RANKS), options.binary, "bench", "reshard", "--job", "--format", "json", "--rate",
            options.rate_words, "--latency", options.overhead, "--seconds", str(options.seconds), *words]  # fmt: skip


def run(bench, words, has_turns=False):
    """The transfers of one run by the strategies that its words name. The program checks every element; here, the bytes between
    hosts must be the planned ones, unless it passes turns too. With --keep, a run that was kept is not made again."""
    options, kept = bench.options, {}
    if not bench.kept.setdefault("is warm", False):  # the first job on new hosts is slower, and is not counted
        bench.kept["is warm"] = True
        output_of(command_of(bench, ["--case", "1", "--bytes", "65536", "--strategy", "broadcast"]))
    name = " ".join([options.rate, *words])
    if options.keep and os.path.exists(options.keep):
        with open(options.keep, encoding="utf-8") as file:
            kept = json.load(file)
    if name not in kept:
        kept[name] = json.loads(output_of(command_of(bench, words)))["results"]
        if options.keep:
            write(options.keep, json.dumps(kept))
    found = []
    for one in kept[name]:
        t_s = 4 * math.prod(one["shape"]) / (options.bits_per_s / 8)
        found.append(Transfer(one["strategy"], one["planned_s"] / t_s, one["best_s"] / t_s))
        if one["bytes_planned"] != one["bytes_counted"] and not has_turns:
            fail(f"`bench reshard {' '.join(words)}` by {one['strategy']} passed {one['bytes_counted']} bytes between hosts, and "
                 f"not the planned {one['bytes_planned']}")  # fmt: skip
    told = ", ".join(f"{one.strategy} {one.planned:.2f} / {one.measured:.2f}" for one in found)
    print(f"{' '.join(words)}: {told}", flush=True)
    return found


def as_planned(transfers):
    """How many pairs of strategies whose planned times differ were measured in the planned order, and how many there are."""
    pairs = [(fast, slow) for fast in transfers for slow in transfers if slow.planned > SAME * fast.planned]
    return sum(slow.measured > fast.measured for fast, slow in pairs), len(pairs)

"""Rounds in which programs take turns, and the figures of a round. Nothing here knows what a program computes."""
import contextlib
import dataclasses
import itertools
import statistics
import time

from processes import Stopped, fail, script


def spread(values):
    """[median, least, most] of the rounds."""
    return [statistics.median(values), min(values), max(values)] if values else None


@dataclasses.dataclass
class Rounds:
    """What programs said, by name: a Sample (peers.py) for each round. A program that failed runs no further rounds, so the first
    rounds are those of all programs."""

    samples: dict
    asked: int  # rounds that were asked for
    notes: dict = dataclasses.field(default_factory=dict)  # why a program has fewer
    failed: set = dataclasses.field(default_factory=set)

    def times(self, name):
        return [sample.step_s for sample in self.samples.get(name, [])]

    def median_s(self, name):
        return statistics.median(self.times(name))

    def ratios(self, above, below):
        """How many times the time of `below` the other one took, round by round: a machine that grows slower meets both."""
        return [a / b for a, b in zip(self.times(above), self.times(below))]

    def step_ms(self, name):
        return spread([1e3 * seconds for seconds in self.times(name)])

    def ratio(self, above, below):
        return spread(self.ratios(above, below))

    def peak_bytes(self, name):
        return max(sample.peak_bytes for sample in self.samples[name])

    def first_loss(self, name):
        return self.samples[name][0].losses[0]


class Allowed:
    """The time until which some programs may take, and what each of them may take of it."""

    def __init__(self, ends_s):
        self.ends_s = ends_s
        self.longest_s = {}

    def left_s(self):
        return self.ends_s - time.monotonic()

    def most_s(self, name):
        """Half of what is left, so that one that hangs leaves time for the others; more for one that is known to take more."""
        left_s = self.left_s()
        if left_s <= 0:
            raise Stopped("no time was left")
        return min(left_s, max(left_s / 2, 1.5 * self.longest_s.get(name, 0)))

    @contextlib.contextmanager
    def timed(self, name):
        begin_s = time.monotonic()
        yield
        self.longest_s[name] = max(self.longest_s.get(name, 0), time.monotonic() - begin_s)


def turned(names, turn):
    """The same names, another first in each round: none gains by its place."""
    return names[turn % len(names) :] + names[: turn % len(names)]


def difference(losses, others):
    """The first step whose losses differ, as a text; none: empty."""
    for step, pair in enumerate(itertools.zip_longest(losses, others), 1):
        if pair[0] != pair[1]:
            return f"{pair[0]} and {pair[1]} in step {step}"
    return ""


def require_same_losses(samples, name):
    """A program that runs again on the same tokens computes the same bits."""
    differs = difference(samples[0].losses, samples[-1].losses)
    if differs:
        raise Stopped(f"{script()}: {name}: the losses differ from round to round: {differs}")


def take_turns(label, programs, rounds):
    """Runs each program once in each round, and gives the Rounds. A program is a function that gives a Sample. One that fails, or
    whose losses are not the same bits in each round, ends the script."""
    result = Rounds({name: [] for name in programs}, rounds)
    for turn in range(rounds):
        for name in turned(list(programs), turn):
            result.samples[name].append(programs[name]())
            require_same_losses(result.samples[name], f"{label}{name}")
        show(label, result, turn)
    return result


def take_turns_within(label, programs, result, allowed, changed, after_first):
    """The same within a time. Programs take the most seconds that they may. One that fails or is ended stays out of further
    rounds, and the others go on; no round begins that would not end in time. `changed` is called after each program,
    `after_first` after the first round."""
    for turn in range(result.asked):
        running = [name for name in programs if name not in result.failed]
        # What failed has no part in it.
        round_s, left_s = sum(allowed.longest_s.get(name, 0) for name in running), allowed.left_s()
        if turn > 0 and left_s < round_s:
            for name in running:
                result.notes[name] = f"a round takes {round_s:.1f} s, and {max(0, left_s):.1f} s were left"
            print(f"{label}no time for round {turn + 1} of {result.asked}", flush=True)
            return
        for name in turned(running, turn) if running else ():
            try:
                most_s = allowed.most_s(name)
                with allowed.timed(name):
                    sample = programs[name](most_s)
                require_same_losses([*result.samples[name], sample], name)
                result.samples[name].append(sample)
            except Stopped as stopped:
                result.failed.add(name)
                result.notes[name] = f"round {turn + 1}: {stopped.reason()}"
            changed()
        show(label, result, turn)
        if turn == 0:
            after_first()


def show(label, result, turn):
    line = ", ".join(f"{name} {1e3 * of[turn].step_s:.4g}" for name, of in result.samples.items() if len(of) > turn)
    print(f"{label}round {turn + 1} of {result.asked}, ms a step: {line}", flush=True)


def require_near(label, rounds, name, other, most):
    """The first losses of two programs differ by at most a part of themselves."""
    one, two = rounds.first_loss(name), rounds.first_loss(other)
    if not abs(one - two) <= most * abs(two):
        fail(f"{label}the first losses are {one} of {name} and {two} of {other}; they may differ by {most:.2g} of themselves")


def require_equal(label, losses):
    """All losses, by name, are the same bits."""
    names = list(losses)
    for name in names[1:]:
        differs = difference(losses[names[0]], losses[name])
        if differs:
            fail(f"{label}the losses of {names[0]} and {name} differ: {differs}")

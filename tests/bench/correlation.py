"""How alike two orders are, for scripts/bench-* that put predictions beside measurements."""
import statistics


def ranked(values):
    """The rank of each value, the mean rank among equals."""
    order = sorted(values)
    return [statistics.mean(i for i, other in enumerate(order) if other == value) for value in values]


def spearman(a, b):
    """Spearman's coefficient; 0 where one side says nothing of the order."""
    a, b = ranked(a), ranked(b)
    return statistics.correlation(a, b) if len(set(a)) > 1 and len(set(b)) > 1 else 0.0

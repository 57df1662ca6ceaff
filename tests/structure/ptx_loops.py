"""The loops of kernels in PTX, and how many instructions each has."""
import re
from dataclasses import dataclass, field


@dataclass
class Loop:
    """A natural loop: one that is entered at its first block alone."""

    kernel: str
    blocks: frozenset
    instructions: list = field(default_factory=list)  # without those of loops inside it
    inner: list = field(default_factory=list)

    def count(self, pattern="."):
        return sum(re.match(pattern, one) is not None for one in self.instructions)


def _blocks(body):
    """The basic blocks of a kernel's text: a list of (instructions, numbers of the blocks that may follow)."""
    blocks, labels, current = [], {}, []

    def close():
        nonlocal current
        if current or not blocks:
            blocks.append(current)
        current = []

    pending = []
    for line in body.splitlines():
        line = re.sub(r"//.*", "", line).strip()
        label = re.match(r"(\$\w+):$", line)
        if label:
            if current:
                close()
            pending.append(label[1])
            continue
        if not line.endswith(";") or line.startswith((".", "{", "}")):
            continue
        for name in pending:
            labels[name] = len(blocks)
        pending = []
        current.append(line.rstrip(";").strip())
        if re.match(r"(@!?%p\d+ )?(bra|ret|exit)\b", current[-1]):
            close()
    close()
    for name in pending:
        labels[name] = len(blocks) - 1
    edges = []
    for number, block in enumerate(blocks):
        last = block[-1] if block else ""
        jump = re.match(r"(@!?%p\d+ )?bra(?:\.uni)?\s+(\$\w+)", last)
        after = [labels[jump[2]]] if jump else []
        leaves = re.match(r"(ret|exit)\b", last) or (jump and not jump[1])
        if not leaves and number + 1 < len(blocks):
            after.append(number + 1)
        edges.append(after)
    return blocks, edges


def _dominators(edges):
    """For each block the set of those that every way to it passes; none for a block that no way reaches."""
    before = [[] for _ in edges]
    for number, after in enumerate(edges):
        for other in after:
            before[other].append(number)
    everything = set(range(len(edges)))
    found = [{0}] + [set(everything) for _ in edges[1:]]
    changed = True
    while changed:
        changed = False
        for number in range(1, len(edges)):
            ways = [found[other] for other in before[number]]
            now = ({number} | set.intersection(*ways)) if ways else everything
            changed |= now != found[number]
            found[number] = now
    return found, before


def _loops_of(kernel, body):
    blocks, edges = _blocks(body)
    dominators, before = _dominators(edges)
    bodies = {}
    for number, after in enumerate(edges):
        for first in after:
            if first not in dominators[number]:
                continue
            inside, to_see = bodies.setdefault(first, {first}), [number]
            while to_see:
                block = to_see.pop()
                if block not in inside:
                    inside.add(block)
                    to_see += before[block]
    loops = [Loop(kernel, frozenset(inside)) for inside in bodies.values()]
    loops.sort(key=lambda loop: len(loop.blocks))
    for at, loop in enumerate(loops):
        own = set(loop.blocks)
        for other in loops[:at]:
            if other.blocks < loop.blocks:
                own -= other.blocks
                if not any(other in between.inner for between in loops[:at] if between.blocks < loop.blocks):
                    loop.inner.append(other)
        loop.instructions = [re.sub(r"^@!?%p\d+ ", "", one) for block in sorted(own) for one in blocks[block]]
    return loops


def loops(ptx):
    """All loops of all kernels, by the kernels' names in the text; inner ones before those around them."""
    found = {}
    for entry in re.finditer(r"^(?:\.visible |\.weak )?\.entry (\w+)\((.*?)^\{(.*?)^\}", ptx, re.M | re.S):
        found[entry[1]] = _loops_of(entry[1], entry[3])
    return found

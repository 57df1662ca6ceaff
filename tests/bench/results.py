"""What was measured, as data: rows of JSON, and the page that is drawn from them.

tests/bench/results/NAME.jsonl has a row a line, in the order in which the page shows them:

  table    the heading of the table that the row belongs to
  machine  CPU or GPU, how many, and what else decides what a program can reach there: the rate of links, instructions left out
  date     YYYY-MM-DD, or null
  commit   of Fourfold, or null
  command  what makes the row
  note     what else a reader has to know of the measurement, or ""
  of       what the row is about, by names: {"workload": "GPT-2 124M, 4 x 64 tokens", "program": "Fourfold"}
  figures  by names that end with their units: {"step_ms": [28, 24, 34], "tokens_per_s": 27760}

A figure is a number, a text, null, or a list: [least, most], or [median, least, most] of the rounds. A recipe replaces the rows
of its tables that have the same machine and the same first value of `of`, a workload or a switch, and appends new ones.
"""
import datetime
import functools
import json
import os
import platform
import subprocess

from processes import ROOT

FIELDS = {"table": str, "machine": str, "date": (str, type(None)), "commit": (str, type(None)), "command": str, "note": str,
          "of": dict, "figures": dict}  # fmt: skip
BEGIN, END = "<!-- rows -->\n", "<!-- end -->\n"
MOST_DRAWN = 100  # rows of a table; a longer one is named, not drawn


def cpu_text():
    """The CPU of this machine, and how many cores there are for us."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        name = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0))
    return f"{name}, {cores} core{'s' * (cores != 1)}"


@functools.cache
def commit():
    """The commit of this tree, or of what was packed, or None."""
    packed = os.path.join(ROOT, "commit.txt")
    if os.path.exists(packed):
        with open(packed, encoding="utf-8") as file:
            return file.read().strip()
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def rounded(value):
    """With four digits."""
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def row(table, machine, command, note, of, figures):
    """A row of today."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {"table": table, "machine": machine, "date": today, "commit": commit(), "command": command, "note": note, "of": of,
            "figures": {name: rounded(value) for name, value in figures.items()}}  # fmt: skip


def read(path):
    """The rows of a file, of which each is checked; no file: none."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for number, one in enumerate(rows, 1):
        if list(one) != list(FIELDS):
            raise ValueError(f"{path}:{number}: expected the fields {', '.join(FIELDS)} in this order")
        for key, kind in FIELDS.items():
            if not isinstance(one[key], kind):
                raise ValueError(f"{path}:{number}: {key} is {one[key]!r}")
        if not one["of"] or not one["figures"]:
            raise ValueError(f"{path}:{number}: `of` and `figures` have at least one entry each")
    return rows


def write(path, text):
    """Whole, or as it was before."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def place(one):
    """What a row is about: a new one of the same place is in the way of an old one."""
    return one["table"], one["machine"], next(iter(one["of"].values()))


def merged(old, new):
    """The old rows with the new ones at the places of those that they replace, or at the end of their table."""
    kept, found = [], set()
    for one in old:
        if place(one) not in map(place, new):
            kept.append(one)
        elif place(one) not in found:
            found.add(place(one))
            kept += [other for other in new if place(other) == place(one)]
    for one in new:
        if place(one) not in found:
            ends = [i + 1 for i, other in enumerate(kept) if other["table"] == one["table"]]
            kept.insert(ends[-1] if ends else len(kept), one)
    return kept


def number_text(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def value_text(value):
    """A figure as a page shows it: 28, 26-28, 28 (24-34)."""
    if value is None:
        return ""
    if isinstance(value, list):
        texts = [number_text(one) for one in value]
        return "-".join(texts) if len(texts) == 2 else f"{texts[0]} ({'-'.join(texts[1:])})"
    return number_text(value) if isinstance(value, (int, float)) else value


def table_text(rows):
    """One table of rows that were measured together; a figure that none of them has is left out."""
    names = {"of": list(dict.fromkeys(name for one in rows for name in one["of"]))}
    figures = dict.fromkeys(name for one in rows for name in one["figures"])
    names["figures"] = [name for name in figures if any(one["figures"].get(name) is not None for one in rows)]
    heads = [name.replace("_", " ") for name in names["of"] + names["figures"]]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for one in rows:
        cells = [value_text(one[part].get(name)) for part in names for name in names[part]]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def origin(one):
    """Where and how a row was measured."""
    when = "".join(f", {text}" for text in (one["date"], one["commit"] and f"commit {one['commit']}") if text)
    return f"{one['machine']}{when}: `{one['command']}`.{' ' * bool(one['note'])}{one['note']}"


def drawn(rows, name):
    """All tables. Rows of one table that were measured in one place and way stand together."""
    parts = []
    for table in dict.fromkeys(one["table"] for one in rows):
        of_table = [one for one in rows if one["table"] == table]
        parts.append(f"## {table}\n")
        for where in dict.fromkeys(map(origin, of_table)):
            together = [one for one in of_table if origin(one) == where]
            few = len(together) <= MOST_DRAWN
            parts += [where + "\n", table_text(together) if few else f"{len(together)} rows of `{name}.jsonl`.\n"]
    return "\n".join(parts)


def with_rows(page, rows, name):
    """The page with its tables drawn anew; what stands before and after them stays."""
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin] + drawn(rows, name) + page[end:]


def data_of(path):
    """The data of a page lie beside it."""
    return os.path.splitext(path)[0] + ".jsonl"


def save(path, title, about, rows):
    """Writes rows as the data of a page, and draws the page, which is made where there is none."""
    page = f"# {title}\n\n{about}\n\n{BEGIN}{END}"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            old = file.read()
        page = old if BEGIN in old else page
    write(data_of(path), "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows))
    write(path, with_rows(page, rows, os.path.basename(os.path.splitext(path)[0])))


def keep(path, title, about, rows):
    """Puts rows into the data of a page, at the places of those that they replace."""
    save(path, title, about, merged(read(data_of(path)), rows))

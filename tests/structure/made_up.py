"""Made-up programs for tests of scripts/bench-*: a shell script stands for Fourfold, for PyTorch's Python and for virtual hosts,
and a function of the test answers each of its calls. Recipes run in this process, all that they start are real processes."""
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import runpy
import shlex
import sys
import tempfile
import threading
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
import results  # noqa: E402
import virtual_hosts  # noqa: E402

TOLD = ("OMP_NUM_THREADS", "MALLOC_TOP_PAD_", "XDG_CACHE_HOME", "ONEDNN_MAX_CPU_ISA")  # variables of a call that tests look at
# Writes its variables and words to one pipe, and does what comes by another.
PROGRAM = f"""#!/bin/sh
printf '%s\\000' {' '.join(f'"${name}"' for name in TOLD)} "$@" >"$MADE_UP/ask"
eval "$(cat "$MADE_UP/answer")"
"""


@dataclasses.dataclass
class Call:
    """A call of Fourfold or PyTorch: its words without those that start ranks, which `launcher` has."""

    variables: dict
    words: list
    launcher: list

    @property
    def sets(self):
        return dict(text.split("=", 1) for before, text in zip(self.words, self.words[1:]) if before == "--set")

    def option(self, name):
        return self.words[self.words.index(name) + 1] if name in self.words else None


@dataclasses.dataclass
class Done:
    """What a recipe left."""

    code: int
    out: str
    error: str
    rows: list

    def figures(self, table, **of):
        """The figures of the only row of a table that is about this."""
        found = [row["figures"] for row in self.rows if row["table"] == table and of.items() <= row["of"].items()]
        assert len(found) == 1, f"{len(found)} rows of {table} about {of}: {self.out}{self.error}"
        return found[0]


def say(value, code=0):
    """Shell that prints a text, or a value as JSON, and ends."""
    return f"printf '%s\\n' {shlex.quote(value if isinstance(value, str) else json.dumps(value))}; exit {code}"


def torch(loss, *step_ms, **facts):
    """Shell that is PyTorch: warmed up, it takes so many milliseconds a step in its rounds, one after another, and 300 MiB."""
    ready = {"ready": True, "torch": "2.made-up", "attention": "default", "loss": loss, **facts}
    answers = [f"read -r _ && echo {shlex.quote(json.dumps({'step_s': [ms / 1e3] * 3, 'peak_bytes': 300 << 20}))}" for ms in step_ms]
    return "\n".join([f"echo {shlex.quote(json.dumps(ready))}", *answers, "read -r _"])


class MadeUp(unittest.TestCase):
    """A test overrides `answer`, which gives the shell that a call does."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.program, self.page = self.folder / "program", self.folder / "page.md"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        for name in ("ask", "answer"):
            os.mkfifo(self.folder / name)
        self.calls, self.faults = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                *variables, rest = (self.folder / "ask").read_bytes().decode().split("\0", len(TOLD))
                text = self.reply(dict(zip(TOLD, variables)), rest.split("\0")[:-1])
            except FileNotFoundError:
                return
            except Exception as fault:  # the test shows it
                self.faults.append(fault)
                text = "exit 99"
            (self.folder / "answer").write_text(text)

    def reply(self, variables, words):
        launcher = []
        if words[0] in ("up", "down"):
            self.calls.append(Call(variables, words, []))
            return "exit 0"
        if words[0] == "run":
            launcher, words = words[: words.index("--")], words[words.index("--") + 2 :]
        call = Call(variables, words, launcher)
        self.calls.append(call)
        return "exit 0" if words[0] == "-c" else self.answer(call)

    def calls_of(self, *begin):
        return [call for call in self.calls if call.words[: len(begin)] == list(begin)]

    def train(self, call, loss, step_ms, warmup=1):
        """A run of Fourfold whose steps take so long in the median. Those that warm up take an hour each: with one of them, or
        without one of the others, the median is another."""
        run = pathlib.Path(call.sets["run.dir"])
        run.mkdir(parents=True, exist_ok=True)
        count = int(call.option("--stop-at") or call.sets["train.steps"]) - warmup
        times_ms = [0.9 * step_ms] * (count // 2) + [step_ms] * (count % 2) + [1.1 * step_ms] * (count // 2)
        lines = [{"step_time_s": seconds, "loss": loss} for seconds in [3600] * warmup + [ms / 1e3 for ms in times_ms]]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (run / "kernels.yaml").write_text("a table")
        return "exit 0"

    def run_recipe(self, name, *words, binary=None):
        """Runs a recipe, with a page and data of its own."""
        out, error, code = io.StringIO(), io.StringIO(), 0
        command = [name, "--binary", binary or str(self.program), "--output", str(self.page), *words]
        variables = {"MADE_UP": str(self.folder), "TORCH_PYTHON": str(self.program), **dict.fromkeys(TOLD, "")}
        with mock.patch.object(sys, "argv", command), mock.patch.dict(os.environ, variables), \
                mock.patch.object(virtual_hosts, "SCRIPT", str(self.program)), mock.patch.object(os, "getloadavg", lambda: (0, 0, 0)), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):  # fmt: skip
            try:
                runpy.run_path(str(ROOT / "scripts" / name), run_name="__main__")
            except SystemExit as end:
                code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
                if isinstance(end.code, str):
                    print(end.code, file=error)
        self.assertEqual(self.faults, [])
        return Done(code, out.getvalue(), error.getvalue(), results.read(results.data_of(str(self.page))))

    def rows_of(self, name, *words):
        """What a recipe leaves that must end well, and whose page must show its rows."""
        done = self.run_recipe(name, *words)
        self.assertEqual(done.code, 0, done.out + done.error)
        self.assertIn(results.drawn(done.rows, "page"), self.page.read_text())
        return done

    def assert_refused(self, message, name, *words, **more):
        """It ends with one line, which says this."""
        done = self.run_recipe(name, *words, **more)
        self.assertEqual((done.code, done.error.count("\n")), (1, 1), done.out + done.error)
        self.assertIn(message, done.error)
        self.assertTrue(done.error.startswith(f"{name}: "), done.error)
        return done

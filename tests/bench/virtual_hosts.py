"""Virtual hosts for scripts/bench-*: tests/support/virtual-hosts for as long as a block of Python lasts."""
import os
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "tests/support/virtual-hosts")


class Hosts:
    """Made when the block begins, and gone when it ends. `folder` must not exist yet."""

    def __init__(self, folder, hosts, rate, latency=None, cores=None, inside=None):
        self.folder = folder
        words = ["--hosts", str(hosts), "--rate", rate]
        if inside:
            words += ["--inside", inside]
        if latency:
            words += ["--latency", latency]
        if cores is not None:
            words += ["--cores", str(cores)]
        done = subprocess.run([SCRIPT, "up", folder, *words], capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr.strip(), file=sys.stderr)
            sys.exit(done.returncode)

    def launcher(self, ranks):
        """The words that start so many ranks on each host."""
        return [SCRIPT, "run", self.folder, "--ranks", str(ranks), "--"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([SCRIPT, "down", self.folder], check=False)


def end_with_signals():
    """What ends the script ends its hosts too."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))

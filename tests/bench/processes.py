"""Processes of the recipes scripts/bench-*: each may be ended after a time, and ends with the recipe."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def script():
    """The name of the recipe that runs."""
    return os.path.basename(sys.argv[0])


def fail(message):
    sys.exit(f"{script()}: {message}")


class Stopped(SystemExit):
    """A process failed, or was ended after its time. Where nobody catches it, the script ends with its message."""

    def reason(self, most=200):
        """The message as one line of a page: without the command, and with the first of its lines that names an error, else the
        last. The whole of it goes to the screen."""
        print(self, file=sys.stderr, flush=True)
        text = str(self).strip().removeprefix(f"{script()}: ")
        code = re.search(r"ended with code -?\d+:(.*)", text, re.DOTALL)
        if code:
            said = [line.strip() for line in code[1].splitlines() if line.strip()] or ["it said nothing"]
            line = next((line for line in said if "error" in line.lower()), said[-1])
            text = f"{code[0].splitlines()[0].split(':')[0]}: {line}"
        return (text if len(text) <= most else text[:most] + "...").replace("|", "/").replace("\n", " ")


@contextlib.contextmanager
def bounded(process, most_s):
    """Ends a process that leads a group, and all of the group, if the block takes longer or is left by an exception. Raises
    Stopped in the first case. Without a bound it does nothing."""
    if most_s is None:
        yield
        return
    is_over = threading.Event()

    def end():
        is_over.set()
        end_group(process)

    timer = threading.Timer(most_s, end)
    timer.start()
    try:
        yield
    except BaseException:
        end_group(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if not is_over.is_set():
            raise
    finally:
        timer.cancel()
        timer.join()
    if is_over.is_set():
        process.wait()
        raise Stopped(f"it was ended after {most_s:.0f} s")


leaders = []  # processes that were started with a group of their own
is_starting, is_told = False, False


def start_process(command, leads, **options):
    """Starts a process, with a group of its own if it `leads` one. A signal to end waits until it is known whom to end."""
    global is_starting
    is_starting = True
    try:
        process = subprocess.Popen(command, start_new_session=leads, **options)
        if leads:
            leaders.append(process)
    finally:
        is_starting = False
    if is_told:
        signal.raise_signal(signal.SIGTERM)
    return process


def end_when_told(message):
    """From now on SIGTERM ends all groups of processes, then the script, with its message."""

    def end(*_):
        global is_told
        is_told = True
        if is_starting:
            return
        for process in leaders:
            if process.returncode is None:
                end_group(process)
        fail(message)

    signal.signal(signal.SIGTERM, end)


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def output_of(command, most_s=None, environment=None):
    """Standard output of a command that must succeed, and is ended after `most_s` seconds."""
    process = start_process(command, most_s is not None, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)  # fmt: skip
    with bounded(process, most_s):
        output, errors = process.communicate()
    if process.returncode != 0:
        raise Stopped(f"{script()}: `{' '.join(command)}` ended with code {process.returncode}: {errors}")
    return output

"""What the checks of this folder share: the files of the repository, the table of rooms, and how findings are told."""
import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys


def files(root):
    """All files that are or will be tracked, as sorted paths relative to root. Without git: all but what is ignored."""
    git = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True, check=False) if (root / ".git").exists() else None
    if git is not None and git.returncode == 0:
        paths = [pathlib.PurePosixPath(name) for name in git.stdout.decode().split("\0") if name]
    else:
        paths = [pathlib.PurePosixPath(path.relative_to(root).as_posix()) for path in root.rglob("*")]
        ignored = Ignored(root)
        paths = [path for path in paths if path.parts[0] != ".git" and path not in ignored]
    return sorted(path for path in set(paths) if (root / path).is_file())


class Ignored:
    """The paths that .gitignore names: files that are made, not written. Knows the simple patterns we use."""

    def __init__(self, root):
        ignore = root / ".gitignore"
        lines = ignore.read_text().splitlines() if ignore.exists() else []
        patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        self.from_root = one_of(pattern for pattern in patterns if pattern.startswith("/"))
        self.anywhere = one_of(pattern for pattern in patterns if not pattern.startswith("/"))

    def __contains__(self, path):
        return (any(self.from_root.match(str(parent)) for parent in (path, *path.parents)) or
                any(self.anywhere.match(name) for name in path.parts))


def one_of(patterns):
    return re.compile("|".join(fnmatch.translate(pattern.strip("/")) for pattern in patterns) or r"(?!)")


def text(root, path):
    """The file's text, or None where it is not text."""
    content = (root / path).read_bytes()
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def rooms(root):
    """The table of src/README.md: room -> set of rooms it may include."""
    table = {}
    for line in (root / "src/README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            allowed = {name.strip(" `") for name in cells[2].split(",")} - {"-", ""}
            table[cells[0].strip("`").rstrip("/")] = allowed
    return table


def main(description, findings):
    """Prints what `findings(root)` yields; exit code 1 when there is any."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2],
                        help="the repository (default: this one)")
    found = list(findings(parser.parse_args().root))
    for finding in found:
        print(finding)
    sys.exit(1 if found else 0)

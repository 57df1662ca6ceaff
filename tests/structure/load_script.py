"""Loads a script, which has no ending, as a module."""
import importlib.machinery
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load_script(path):
    """The module of a script by its path in the repository, `scripts/bench-overlap`."""
    loader = importlib.machinery.SourceFileLoader(
        path.replace("/", "_").replace("-", "_"), str(ROOT / path)
    )
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module

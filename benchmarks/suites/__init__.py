"""The bundled suites, registered under their file names."""

from pathlib import Path

from dataeff import hookimpl


@hookimpl
def register_suites(register):
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        register(path.stem, path)

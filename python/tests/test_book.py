"""What the book shows of Python runs as it stands, except for other machines."""

from __future__ import annotations

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "book" / "src" / "python.md"


def test_the_page_on_python_runs(tmp_path, monkeypatch, capsys):
    text = PAGE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "fit.png").is_file() and "spring.c" in capsys.readouterr().out


def test_the_first_screen_of_the_readme_shows_what_comes_out(capsys):
    text = (PAGE.parents[2] / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    shown = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert code and shown
    exec(compile(code[1], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    for line in shown[1].splitlines():
        assert line == "..." or line in printed.splitlines(), line

"""What the book shows of Python runs as it stands, except on clusters."""

from __future__ import annotations

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "book" / "src" / "python.md"


def test_the_page_on_python_runs(tmp_path, monkeypatch, capsys):
    text = PAGE.read_text().split("## Clusters")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "fit.png").is_file() and "spring.c" in capsys.readouterr().out

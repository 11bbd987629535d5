"""What the README shows works: the settings are accepted and the example query passes its tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from app.cli import cli
from app.config import load_settings

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = ("app", "benchmarks", "collectors", "dashboard", "deploy", "engine", "spark_jobs", "tests")
NAMED_FILE = re.compile(r"`([\w./-]*)(\{[\w,]+\}|)([\w./-]*\.py)`")


def block(start: str) -> str:
    """The fenced block that begins with this line."""
    found = re.search(rf"```\w*\n({re.escape(start)}\n.*?)```", README, re.DOTALL)
    assert found, f"the README has no block that starts with {start!r}"
    return found[1]


def test_the_settings_are_accepted(tmp_path: Path) -> None:
    settings = yaml.safe_load(block("sources:"))
    secret = tmp_path / "ops.url"
    secret.write_text("http://127.0.0.1:9/hook\n", encoding="utf-8")
    settings["alerting"]["receivers"]["ops"]["url_file"] = str(secret)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    loaded = load_settings(path)
    assert loaded.sources.yarn_rest.enabled


def test_the_example_query_passes_its_tests(tmp_path: Path) -> None:
    (tmp_path / "slow-fetch.cep").write_text(block("-- queries/slow-fetch.cep"), encoding="utf-8")
    (tmp_path / "slow-fetch.test.yaml").write_text(block("# queries/slow-fetch.test.yaml"), encoding="utf-8")
    result = CliRunner().invoke(cli, ["test", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "1 of 1 queries pass" in result.output


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_every_file_that_a_page_names_is_there() -> None:
    """By the end of its path at least: pages leave out what goes without saying."""
    known = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = [
        (page.name, f"{before}{choice}{after}")
        for page in pages
        for before, choices, after in NAMED_FILE.findall(page.read_text(encoding="utf-8"))
        for choice in choices.strip("{}").split(",")
    ]
    assert len(named) > 100
    assert [(page, name) for page, name in named if not any(f"/{path}".endswith(f"/{name}") for path in known)] == []

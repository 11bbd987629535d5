"""What the project is made of, and advisories about it: made-up ones, in the forms that databases have."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from referencing import Registry, Resource

from deploy.supply.__main__ import ACCEPTED, PACKAGES, ROOT, main
from deploy.supply.advisories import check
from deploy.supply.errors import SupplyError
from deploy.supply.pinned import Part, all_parts, declared, jars, requirements
from deploy.supply.versions import maven_order

WEB = Part("PyPI", "web-thing", "2.5.0")
JAR = Part("Maven", "org.example:thing", "1.10.2", within="pyspark")
SCHEMAS = ("bom-1.6.SNAPSHOT.schema.json", "spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json")
NAMELESS = Part("Maven", "thing", "1.10.2", within="pyspark")


def advisory(name: str = "Web_Thing", ecosystem: str = "PyPI", **given: Any) -> dict[str, Any]:
    events = given.pop("events", None)
    affected: dict[str, Any] = {"package": {"ecosystem": ecosystem, "name": name}}
    if events is not None:
        affected["ranges"] = [{"type": "ECOSYSTEM", "events": events}]
    if "versions" in given:
        affected["versions"] = given.pop("versions")
    return {"id": "X-1", "modified": "2026-11-01T00:00:00Z", "summary": "bad", "affected": [affected], **given}


def found(tmp_path: Path, told: dict[str, Any], *parts: Part) -> list[tuple[str, bool]]:
    (tmp_path / "one.json").write_text(json.dumps(told))
    return [(finding.part.version, finding.certain) for finding in check(parts or (WEB,), tmp_path).findings]


@pytest.mark.parametrize(
    ("events", "is_affected"),
    [
        ([{"introduced": "0"}], True),
        ([{"introduced": "0"}, {"fixed": "2.5.0"}], False),
        ([{"introduced": "0"}, {"fixed": "2.5.1"}], True),
        ([{"introduced": "0"}, {"fixed": "2.10"}], True),  # numbers, not letters
        ([{"introduced": "2.6"}], False),
        ([{"introduced": "0"}, {"last_affected": "2.5"}], True),  # 2.5 is 2.5.0
        ([{"introduced": "0"}, {"last_affected": "2.4.9"}], False),
        ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "2.0"}, {"fixed": "3.0"}], True),
        ([{"introduced": "2.0"}, {"fixed": "2.1"}, {"introduced": "3.0"}], False),
        ([{"fixed": "2.5.0rc1"}, {"introduced": "0"}], False),  # in any order
    ],
)
def test_ranges(tmp_path: Path, events: list[dict[str, str]], is_affected: bool) -> None:
    assert found(tmp_path, advisory(events=events)) == [("2.5.0", True)] * is_affected


def test_versions_that_are_listed(tmp_path: Path) -> None:
    assert found(tmp_path, advisory(versions=["2.4.0", "2.5.0"])) == [("2.5.0", True)]
    assert found(tmp_path, advisory(versions=["2.4.0"])) == []
    assert found(tmp_path, advisory()) == [("2.5.0", True)]


def test_others_and_what_was_withdrawn_are_passed_over(tmp_path: Path) -> None:
    everything = [{"introduced": "0"}]
    assert found(tmp_path, advisory("other", events=everything)) == []
    assert found(tmp_path, advisory(ecosystem="npm", events=everything)) == []
    assert found(tmp_path, advisory(events=everything, withdrawn="2026-01-01T00:00:00Z")) == []


def test_jars_by_maven_s_order_and_by_their_group(tmp_path: Path) -> None:
    told = advisory("org.example:thing", "Maven", events=[{"introduced": "1.9"}, {"fixed": "1.10.10"}])
    assert found(tmp_path, told, JAR, NAMELESS) == [("1.10.2", True), ("1.10.2", False)]
    told = advisory("org.other:thing", "Maven", events=[{"introduced": "0"}])
    assert found(tmp_path, told, JAR, NAMELESS) == [("1.10.2", False)]


def test_maven_s_order() -> None:
    ordered = [
        "1-alpha1",
        "1-beta",
        "1-rc1",
        "1-SNAPSHOT",
        "1",
        "1-sp",
        "1-jre",
        "1.0.1",
        "1.2",
        "1.10",
        "2.0.0-M1",
        "2",
    ]
    assert sorted(sorted(ordered), key=maven_order) == ordered
    assert maven_order("1.0.0.Final") > maven_order("1.0-rc1")
    assert maven_order("1.0.0") == maven_order("1")


def test_the_same_under_two_ids_is_told_once(tmp_path: Path) -> None:
    everything = [{"introduced": "0"}, {"fixed": "2.6"}]
    (tmp_path / "all.zip").parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("PYSEC-1.json", json.dumps(advisory(id="PYSEC-1", aliases=["CVE-1"], events=everything)))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/GHSA-1.yaml").write_text(
        "id: GHSA-1\naliases: [CVE-1]\nmodified: 2026-11-02T00:00:00Z\nsummary: worse\naffected:\n"
        "- package: {ecosystem: PyPI, name: web.thing}\n  versions: ['2.5.0']\n"
    )
    checked = check([WEB], tmp_path)
    (finding,) = checked.findings
    assert set(finding.ids) == {"PYSEC-1", "GHSA-1", "CVE-1"}
    assert finding.fixed == ("2.6",)
    assert checked.n_advisories == 2
    assert checked.newest.startswith("2026-11-02")


def test_a_folder_without_advisories_is_no_clean_bill(tmp_path: Path) -> None:
    (tmp_path / "README.json").write_text("[]")
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(SupplyError, match="OSV"):
            check([WEB], folder)


def test_what_cannot_be_read_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"id": "X')
    (tmp_path / "odd.json").write_text(json.dumps(advisory() | {"affected": [3]}))
    (tmp_path / "good.json").write_text(json.dumps(advisory("other")))
    checked = check([WEB], tmp_path)
    assert [re.sub(r".*/", "", place).split(":")[0] for place in checked.unreadable] == ["cut.json", "odd.json"]


# ---------------------------------------------------------------------- command


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small one, with one package."""
    for name in ("runtime", "build", "dev", "kerberos-build", "kerberos"):
        (tmp_path / f"requirements/{name}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / f"requirements/{name}.txt").write_text(f"web-thing==2.5.0 \\\n    --hash=sha256:{'0' * 64}\n")
    for name in ("kafka", "minicluster"):
        (tmp_path / f"deploy/{name}").mkdir(parents=True)
        (tmp_path / f"deploy/{name}/pom.xml").write_text("<project><properties/></project>")
    (tmp_path / "osv").mkdir()
    (tmp_path / "accepted.yaml").write_text("{}")
    return tmp_path


def run(project: Path, *words: str) -> int:
    return main(list(words), root=project, packages=project, accepted=project / "accepted.yaml")


def test_an_open_advisory_fails_an_accepted_one_does_not(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "osv/x.json").write_text(json.dumps(advisory(aliases=["CVE-1"], events=[{"introduced": "0"}])))
    assert run(project, "advisories", str(project / "osv")) == 1
    assert "open: web-thing 2.5.0 (runtime): X-1 CVE-1: bad\n1 open of 1" in capsys.readouterr().out
    (project / "accepted.yaml").write_text("CVE-1: that part is not used\n")
    assert run(project, "advisories", str(project / "osv")) == 0
    assert "accepted: web-thing 2.5.0 (runtime): X-1 CVE-1: bad [that part is not used]" in capsys.readouterr().out
    (project / "accepted.yaml").write_text("CVE-1:\n")
    assert run(project, "advisories", str(project / "osv")) == 2


def test_nothing_found_is_success_nothing_read_is_not(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "osv/x.json").write_text(json.dumps(advisory("other")))
    assert run(project, "advisories", str(project / "osv")) == 0
    assert (
        "0 open of 0 advisories about 1 parts; 1 advisories read, the newest of 2026-11-01" in capsys.readouterr().out
    )
    (project / "osv/y.json").write_text("{")
    assert run(project, "advisories", str(project / "osv")) == 2
    assert run(project, "advisories") == 2
    assert run(project, "advisories", "") == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("supply: nothing was checked: ")


# ------------------------------------------------------------------------ parts


def test_every_requirement_is_pinned_with_hashes() -> None:
    for used_for in ("runtime", "build", "dev", "kerberos-build", "kerberos"):
        parts = requirements(ROOT / f"requirements/{used_for}.txt", used_for)
        assert parts
        assert all(part.sha256 for part in parts)


def test_a_requirement_that_is_not_pinned_is_told(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("# why\n-c other.txt\n")
    with pytest.raises(SupplyError, match="expected NAME==VERSION"):
        requirements(tmp_path / "r.txt", "dev")


def jar(folder: Path, name: str, *coordinates: Sequence[str]) -> bytes:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for group, artifact, version in coordinates:
            told = f"#made\ngroupId={group}\nartifactId={artifact}\nversion={version}\n"
            archive.writestr(f"META-INF/maven/{group}/{artifact}/pom.properties", told)
    return (folder / name).read_bytes()


def test_jars_are_what_they_say_or_what_they_are_called(tmp_path: Path) -> None:
    jar(tmp_path, "d-2.0.Final-linux-x86_64.jar", ("org.d", "d", "2.0.Final"))
    content = jar(tmp_path, "a-1.2-api-2.25.4.jar", ("org.a", "a-1.2-api", "2.25.4"), ("org.b", "b", "1"))
    jar(tmp_path, "c-jni-1.5.7-7.jar", ("org.b", "b", "1"))
    jar(tmp_path, "odd.jar")
    first, second, fourth, third = jars(tmp_path, "runtime", "pyspark")
    assert (first.name, first.version) == ("org.a:a-1.2-api", "2.25.4")
    assert first.sha256 == (hashlib.sha256(content).hexdigest(),)
    assert (second.name, second.version) == ("c-jni", "1.5.7-7")
    assert (third.name, third.version) == ("odd", "")
    assert (fourth.name, fourth.version) == ("org.d:d", "2.0.Final")
    (tmp_path / "cut.jar").write_bytes(content[:50])
    with pytest.raises(SupplyError, match=r"cut\.jar: not a jar"):
        jars(tmp_path, "runtime")


def test_projects_of_the_test_clusters_name_versions() -> None:
    for name in ("kafka", "minicluster"):
        parts = declared(ROOT / f"deploy/{name}/pom.xml", name)
        assert parts
        assert all(re.fullmatch(r"[\w.-]+:[\w.-]+", part.name) and part.version[0].isdigit() for part in parts)


def test_the_bill_of_materials_is_whole_and_valid(tmp_path: Path) -> None:
    """By the standard's own schema; what runs has hashes and a licence."""
    assert main(["sbom", str(tmp_path / "build/sbom.json")]) == 0
    text = (tmp_path / "build/sbom.json").read_text()
    bom = json.loads(text)
    schemas = PACKAGES / "cyclonedx/schema/_res"
    own, *others = (json.loads((schemas / name).read_text()) for name in SCHEMAS)
    beside = own["$id"].rpartition("/")[0]
    named = zip(SCHEMAS[1:], others, strict=True)
    registry: Registry[Any] = Registry().with_resources(
        [(f"{beside}/{name}", Resource.from_contents(schema)) for name, schema in named]
    )
    Draft7Validator(own, registry=registry).validate(bom)
    parts = all_parts(ROOT, PACKAGES)
    nested = [each for component in bom["components"] for each in component.get("components", ())]
    assert len(bom["components"]) + len(nested) == len(parts)
    required = [each for each in bom["components"] if each["scope"] == "required"]
    assert {each["name"] for each in required} == {
        part.name for part in requirements(ROOT / "requirements/runtime.txt", "runtime")
    }
    assert all(each.get("hashes") and each.get("licenses") for each in required)
    needs = {each["ref"]: each.get("dependsOn", ()) for each in bom["dependencies"]}
    assert any(ref.startswith("pkg:pypi/streamlit@") for ref in needs["clustercep"])
    assert set(re.findall(r"https?://[^\"/]+", text)) == {"http://cyclonedx.org"}
    assert main(["sbom", str(tmp_path / "again.json")]) == 0
    again = json.loads((tmp_path / "again.json").read_text())
    assert again["serialNumber"] == bom["serialNumber"]
    assert again["components"] == bom["components"]


def test_what_is_accepted_has_reasons(project: Path) -> None:
    (project / "osv/x.json").write_text(json.dumps(advisory("other")))
    assert main(["advisories", str(project / "osv")], root=project, packages=project, accepted=ACCEPTED) == 0

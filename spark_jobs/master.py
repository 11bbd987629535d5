"""Whether a master can be had at all, told before Spark tries for minutes."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree.ElementTree import ParseError

from defusedxml import ElementTree

from app.errors import AppError

NEEDED_JAVA = 17
CONNECT_TIMEOUT_S = 5.0
RESOURCEMANAGER_PORT = 8032

_ON_THIS_MACHINE = re.compile(r"local(\[(\*|[1-9][0-9]*)(, *[0-9]+)?\])?|local-cluster\[[0-9, ]+\]")
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_EXPECTED = "expected local[N], yarn, spark://HOST:PORT or k8s://https://HOST:PORT"


class SparkJobError(AppError):
    """A job that cannot be done as asked; says where, what was found, what was expected and what to do."""


def is_on_this_machine(master: str) -> bool:
    """Whether executors run within the driver's process, or beside it."""
    return _ON_THIS_MACHINE.fullmatch(master) is not None


def check_master(master: str, environment: Mapping[str, str] | None = None) -> None:
    """Raise SparkJobError unless the master is one that Spark knows, configured here, and answering."""
    given = os.environ if environment is None else environment
    if is_on_this_machine(master):
        return
    if master == "yarn":
        _check_any_answers(master, _resource_managers(_hadoop_configuration(given)), RESOURCEMANAGER_PORT)
    elif master.startswith("spark://"):
        _check_any_answers(master, master.removeprefix("spark://").split(","), 7077)
    elif master.startswith("k8s://"):
        url = master.removeprefix("k8s://")
        _check_any_answers(master, [urlsplit(url if "://" in url else f"https://{url}").netloc], 443)
    else:
        raise SparkJobError(f"Spark master: found {master!r}; {_EXPECTED}")


def check_java(environment: Mapping[str, str] | None = None) -> None:
    """Raise SparkJobError unless the Java that Spark would start is there and new enough."""
    given = os.environ if environment is None else environment
    remedy = f"install a Java runtime of version {NEEDED_JAVA} or newer, or set JAVA_HOME to one"
    home = given.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=given.get("PATH"))
    if java is None:
        raise SparkJobError(f"Spark needs Java: found none on the PATH; {remedy}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603  # the Java that Spark starts, too
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SparkJobError(f"Spark needs Java: {java} cannot be started: {reason}; {remedy}") from None
    found = _VERSION.search(told.stderr + told.stdout)
    if found is None or int(found[1]) < NEEDED_JAVA:
        version = found[1] if found else (told.stderr or told.stdout).strip().partition("\n")[0] or "no version"
        raise SparkJobError(f"Spark needs Java {NEEDED_JAVA}: {java} is {version}; {remedy}")


def _hadoop_configuration(given: Mapping[str, str]) -> Path:
    """The yarn-site.xml that counts."""
    folders = [given[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if given.get(name)]
    remedy = "set HADOOP_CONF_DIR to the folder with the cluster's core-site.xml and yarn-site.xml"
    if not folders:
        raise SparkJobError(f"Spark master yarn: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set; {remedy}")
    sites = [site for folder in folders if (site := Path(folder, "yarn-site.xml")).is_file()]
    if not sites:
        raise SparkJobError(f"Spark master yarn: no yarn-site.xml in {' or '.join(folders)}; {remedy}")
    return sites[0]


def _resource_managers(site: Path) -> list[str]:
    """Where it says that they listen; none where that is left to defaults or variables."""
    try:
        entries = ElementTree.parse(site).iter("property")
    except (OSError, ParseError) as error:
        raise SparkJobError(f"Spark master yarn: {site}: {error}; expected Hadoop's configuration in XML") from None
    given = {entry.findtext("name", "").strip(): entry.findtext("value", "").strip() for entry in entries}
    is_several = given.get("yarn.resourcemanager.ha.enabled") == "true"
    names = given.get("yarn.resourcemanager.ha.rm-ids", "").split(",") if is_several else [""]
    suffixes = [f".{name.strip()}" if name else "" for name in names]
    found = [
        given.get(f"yarn.resourcemanager.address{suffix}") or given.get(f"yarn.resourcemanager.hostname{suffix}")
        for suffix in suffixes
    ]
    return [place for place in found if place and "${" not in place]


def _check_any_answers(master: str, places: list[str], default_port: int) -> None:
    """Nothing is said of no places."""
    reasons: list[str] = []
    for place in places:
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port or default_port
        except ValueError:
            host, port = None, 0
        if not host:
            raise SparkJobError(f"Spark master: found {master!r}; {_EXPECTED}")
        try:
            with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S):
                return
        except OSError as error:
            reasons.append(f"{host}:{port}: {(error.strerror or str(error)).lower()}")
    if not places:
        return
    raise SparkJobError(
        f"Spark master {master} cannot be reached: {'; '.join(reasons)}; start it, or name another with --master"
    )

"""Configuration of gmond, gmetad and gmetric, all unicast on loopback."""

from __future__ import annotations

import shutil
import socket
import xml.etree.ElementTree as ET
from pathlib import Path

from deploy.minicluster.errors import StartError
from deploy.minicluster.settings import Settings

PROGRAMS = ("gmond", "gmetad", "gmetric", "rrdtool")


def find_program(name: str) -> str:
    """Path of one of Ganglia's programs; they live in sbin, which is not on everybody's PATH."""
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
    if found is None:
        raise StartError(f"{name} was not found; install it: apt-get install ganglia-monitor gmetad rrdtool")
    return found


def quote(text: str) -> str:
    """A string of Ganglia's configuration language."""
    if any(character in text for character in '"\\\n'):
        raise StartError(f"cannot be written to Ganglia's configuration: {text!r}")
    return f'"{text}"'


def gmond_config(settings: Settings, port: int) -> str:
    """gmond only listens (mute): without collection groups it reports nothing about the real machine."""
    address = settings.master_address
    return f"""\
globals {{
  daemonize = no
  setuid = no
  mute = yes
  deaf = no
  host_dmax = 0
  cleanup_threshold = 300
  gexec = no
  send_metadata_interval = 0
  override_hostname = "master"
}}
cluster {{
  name = {quote(settings.cluster)}
  owner = "clustercep"
}}
udp_recv_channel {{
  bind = {address}
  port = {port}
}}
tcp_accept_channel {{
  bind = {address}
  port = {port}
}}
"""


def gmetric_config(settings: Settings, port: int) -> str:
    """Where gmetric sends to."""
    return f"""\
globals {{
  override_hostname = "master"
}}
cluster {{
  name = {quote(settings.cluster)}
}}
udp_send_channel {{
  host = {settings.master_address}
  port = {port}
}}
"""


def gmetad_config(settings: Settings, ports: dict[str, int], rrd_root: Path) -> str:
    """gmetad asks every step and keeps one archive with every step of the retention time."""
    step_s = settings.ganglia.step_s
    n_rows = settings.ganglia.retention_h * 3600 // step_s
    return f"""\
data_source {quote(settings.cluster)} {step_s} {settings.master_address}:{ports["gmond"]}
RRAs "RRA:AVERAGE:0.5:1:{n_rows}"
gridname "clustercep"
authority "http://master/ganglia/"
trusted_hosts {settings.master_address}
setuid off
xml_port {ports["gmetad"]}
interactive_port {ports["gmetad_interactive"]}
rrd_rootdir {quote(str(rrd_root))}
case_sensitive_hostnames 0
"""


def read_xml(address: str, port: int, timeout_s: float = 10.0) -> str:
    """The whole XML document that gmond or gmetad sends to everybody who connects. Raises OSError."""
    chunks = []
    with socket.create_connection((address, port), timeout=timeout_s) as connection:
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks).decode("iso-8859-1")


def hosts_with_metric(xml: str, metric: str) -> set[str]:
    """Names of the hosts in our own gmetad's XML that have `metric`."""
    try:
        root = ET.fromstring(xml)  # noqa: S314 - written by the gmetad we started
    except ET.ParseError:
        return set()
    return {
        host.get("NAME", "")
        for host in root.iter("HOST")
        if any(element.get("NAME") == metric for element in host.iter("METRIC"))
    }

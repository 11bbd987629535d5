"""What all sources over HTTP have in common, from their settings: time-outs, certificates, tickets."""

from __future__ import annotations

from dataclasses import replace

from app.certificates import check_client_certificate, checked_ca_file
from app.errors import ConfigError, ConfigProblem
from app.settings import HttpSource
from collectors.base import OptionError
from collectors.network.http import HttpOptions
from collectors.network.kerberos import Kerberos, KerberosOptions


def http_options(name: str, section: HttpSource, base: HttpOptions, n_silences: int) -> HttpOptions:
    """How source `name` asks, over `base`; one document takes at most `n_silences` time-outs. Raises ConfigError."""
    key = f"sources.{name}"
    timeout_s = section.timeout_ms / 1000
    ca_file = checked_ca_file(section.ca_file, f"{key}.ca_file")
    check_client_certificate(section.cert_file, section.key_file, key)
    return replace(
        base,
        connect_timeout_s=min(base.connect_timeout_s, timeout_s),
        read_timeout_s=timeout_s,
        total_timeout_s=n_silences * timeout_s,
        verify_tls=section.verify_tls if ca_file is None else str(ca_file),
        client_certificate=None if section.cert_file is None else (section.cert_file, section.key_file),
        kerberos=_kerberos(key, section),
    )


def _kerberos(key: str, section: HttpSource) -> Kerberos | None:
    given = section.kerberos
    if given is None:
        return None
    try:
        return Kerberos(KerberosOptions(given.principal, given.keytab_file, given.mutual_authentication))
    except OptionError as error:
        expected = "a principal, a keytab with its key, and the optional package gssapi"
        raise ConfigError("configuration", (ConfigProblem(f"{key}.kerberos", str(error), expected),)) from None


__all__ = ["http_options"]

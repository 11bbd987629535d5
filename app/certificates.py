"""Files of certificates, to check servers against and to show to them, as settings name them."""

from __future__ import annotations

import ssl
from pathlib import Path

from app.errors import ConfigError, ConfigProblem
from collectors.base import OptionError
from collectors.network.http_attempt import check_ca_file


def checked_ca_file(path: Path | None, key: str) -> Path | None:
    """`path`, when it is one that can be used; raises ConfigError naming the key."""
    try:
        if path is not None:
            check_ca_file(path)
    except OptionError as error:
        problem = ConfigProblem(key, str(error), "a readable PEM file with the certificates to trust")
        raise ConfigError("configuration", (problem,)) from None
    return path


def check_client_certificate(cert_file: Path | None, key_file: Path | None, key: str) -> None:
    """Raise ConfigError unless both can be read and belong together."""
    if cert_file is None:
        return
    place = f"{key}.{'cert_file' if key_file is None else 'key_file'}"
    try:
        for path, name in ((cert_file, "cert_file"), (key_file, "key_file")):
            if path is not None:
                place_of = f"{key}.{name}"
                with path.open("rb"):
                    pass
        # Without a password a locked key would be asked for at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as error:
        found = f"{cert_file}: {error.reason or 'no certificate with its key'}"
        problem = ConfigProblem(place, found, "a PEM certificate and its key, without a password")
        raise ConfigError("configuration", (problem,)) from None
    except OSError as error:
        found = f"{error.filename or cert_file}: {error.strerror or error}"
        raise ConfigError("configuration", (ConfigProblem(place_of, found, "a readable PEM file"),)) from None

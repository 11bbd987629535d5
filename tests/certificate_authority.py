"""A certificate authority of one test, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import itertools
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
FAR = BEGIN + datetime.timedelta(days=36_500)
PAST = BEGIN + datetime.timedelta(days=1)


class Authority:
    """Signs certificates; `ca_file` is what others trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._own_name = folder, name
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._serials = itertools.count(2)
        own = (
            self._builder(self._name, self._key, 1, FAR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / f"{name}-ca.pem"
        self.ca_file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, serial: int, end: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(BEGIN)
            .not_valid_after(end)
        )

    def sign(self, name: str, end: datetime.datetime = FAR) -> tuple[Path, Path]:
        """Files of a certificate for `name`, a host or an address, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            alternative = x509.DNSName(name)
        serial = next(self._serials)
        signed = (
            self._builder(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), key, serial, end)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        cert_file, key_file = (self._folder / f"{self._own_name}-{serial}.{suffix}" for suffix in ("pem", "key"))
        cert_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        kind = serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()))
        return cert_file, key_file

    def server(
        self, name: str = "127.0.0.1", end: datetime.datetime = FAR, clients: Authority | None = None
    ) -> ssl.SSLContext:
        """TLS of a server by this name; with `clients` it wants a certificate that this authority signed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.sign(name, end))
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.ca_file)
        return context

"""A smarthost on loopback that answers as told."""

from __future__ import annotations

import base64
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Smarthost:
    """What came, and what is answered: by the first word of a command, else 250."""

    port: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)
    secure: list[bool] = field(default_factory=list)
    """Of each mail: whether it came over TLS."""


@contextmanager
def smarthost(
    tls: ssl.SSLContext | None = None, *, offers: tuple[str, ...] = (), on_connect: bool = False, **answers: str
) -> Iterator[Smarthost]:
    """Listen on a free port of loopback; `answers`: `MAIL="451 later"`, and DATA_END for the end of a mail."""
    host = Smarthost(answers=answers)

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def secured(self) -> None:
            assert tls is not None
            self.connection = tls.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)

        def handle(self) -> None:
            with suppress(OSError):
                self.talk()
            if isinstance(self.connection, ssl.SSLSocket):
                for opened in (self.rfile, self.wfile, self.connection):
                    opened.close()

        def talk(self) -> None:
            is_secure = on_connect
            if on_connect:
                self.secured()
            self.say(host.answers.get("HELLO", "220 ready"))
            while line := self.rfile.readline().decode().strip():
                host.commands.append(line)
                word = line.split()[0].upper()
                if word == "EHLO" and "EHLO" not in host.answers:
                    said = ["here", *(offer for offer in offers if offer != "STARTTLS" or not is_secure)]
                    for n, offer in enumerate(said):
                        self.say(f"250{' ' if n == len(said) - 1 else '-'}{offer}")
                elif word == "STARTTLS":
                    self.say("220 go")
                    self.secured()
                    is_secure = True
                elif word == "AUTH" and "AUTH" not in host.answers:
                    given = base64.b64decode(line.split()[2]).decode()
                    self.say("235 welcome" if given == "\0me\0hunter22" else f"535 no: {given!r}")
                elif word == "DATA" and "DATA" not in host.answers:
                    self.say("354 go on")
                    mail = b""
                    while (piece := self.rfile.readline()) != b".\r\n":
                        if not piece:
                            return  # the client has hung up
                        mail += piece
                    host.mails.append(mail)
                    host.secure.append(is_secure)
                    self.say(host.answers.get("DATA_END", "250 taken"))
                else:
                    key = f"RCPT_{line.split('@')[0].split('<')[-1]}" if word == "RCPT" else word
                    self.say(host.answers.get(key, "250 fine"))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        host.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join(60)

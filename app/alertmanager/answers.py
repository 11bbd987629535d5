"""Answers and errors in Alertmanager's forms."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from app.process.serving.http_server import Answer

JSON = "application/json"


class ApiError(Exception):
    """What is told to the client: a JSON text, or with a code an object of code and message."""

    def __init__(self, status: HTTPStatus, message: str, code: int | None = None) -> None:
        self.status = status
        self.message = message
        self.code = code
        super().__init__(message)

    def answer(self) -> Answer:
        """As Alertmanager says it."""
        return json_answer(self.message if self.code is None else coded(self.code, self.message), self.status)


def coded(code: int, message: str) -> dict[str, Any]:
    """The form of errors that are told before a handler is asked."""
    return {"code": code, "message": message}


def encoded(value: Any) -> bytes:
    """JSON in ASCII."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def json_answer(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """A whole one."""
    return Answer(status, encoded(value) + b"\n", JSON)


__all__ = ["JSON", "ApiError", "coded", "encoded", "json_answer"]

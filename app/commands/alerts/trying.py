"""`clustercep alerts test`: a marked alert to one receiver, and what its service answers."""

from __future__ import annotations

from typing import Annotated

import typer

from app.alerting.delivery import endpoint_of
from app.alerting.receivers.errors import DeliveryError
from app.alerting.receivers.sample import sample_news
from app.alerting.text import plain
from app.clock import SystemClock
from app.commands.alerts.options import actor
from app.commands.completion import receivers
from app.commands.friendly import EXIT_FAILED, ConfigOption, JsonOption, friendly, print_json
from app.config import load_settings
from app.console import inert
from app.errors import AppError
from app.live.assembly import links_of
from app.nearest_name import did_you_mean


@friendly
def try_receiver(
    receiver: Annotated[
        str, typer.Argument(metavar="RECEIVER", help="Its name in alerting.receivers.", autocompletion=receivers)
    ],
    config: ConfigOption = None,
    resolve: Annotated[
        bool, typer.Option(help="Tell afterwards that it is over, so that no incident stays open.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Send a marked test alert to a receiver, and print what the service answers. Exit 1 when it does not take it."""
    settings = load_settings(config)
    known = settings.alerting.receivers
    if receiver not in known:
        names = f"one of {', '.join(sorted(known))}" if known else "its name in alerting.receivers, which has none yet"
        expected = f"expected {names}"
        raise AppError(f"found {receiver!r}; {expected}{did_you_mean(receiver, sorted(known), '; ')}")
    if not known[receiver].enabled:
        raise AppError(f"{receiver} is disabled; expected alerting.receivers.{receiver}.enabled: true")
    named = f"{receiver} ({known[receiver].kind})"
    endpoint = endpoint_of(receiver, known[receiver], links_of(settings))
    answers: list[dict[str, str]] = []
    for is_resolved in (False, True)[: 1 + resolve]:
        told = "resolved" if is_resolved else "firing"
        news = sample_news(
            receiver, endpoint.links, SystemClock().now_ms(), is_resolved=is_resolved, said_by=actor().name
        )
        try:
            message = endpoint.message(news)
            said = endpoint.service.send(message, news.idempotency_key, endpoint.timeout_s, ask=True)
        except (DeliveryError, ValueError) as error:
            if as_json:
                failed = {"state": told, "error": plain(error, 500)}
                print_json({"receiver": receiver, "kind": known[receiver].kind, "answers": [*answers, failed]})
                raise typer.Exit(EXIT_FAILED) from None
            typer.echo(
                inert(f"{receiver} ({known[receiver].kind}) did not take it ({told}): {plain(error, 500)}"), err=True
            )
            raise typer.Exit(EXIT_FAILED) from None
        answers.append({"state": told, "answer": plain(said, 500)})
        if not as_json:
            typer.echo(inert(f"{named} took it ({told}): {said}"))
    if as_json:
        print_json({"receiver": receiver, "kind": known[receiver].kind, "answers": answers})


__all__ = ["try_receiver"]

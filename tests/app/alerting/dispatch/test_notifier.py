"""Groups by way of the notifier: a thread tells them when their time has come, and follows a reload."""

from __future__ import annotations

from app.alerting.delivery import endpoint_of
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.notifier import Notifier
from app.store import Store
from tests.app.alerting.dispatch.world import TREE, World
from tests.app.webhook import webhook


def test_the_notifier_tells_groups_and_follows_another_tree(store: Store) -> None:
    with webhook() as hook:
        tree = TREE.replace("http://127.0.0.1:9/ops", hook.url).replace("group_wait: 30s", "group_wait: 0s")
        world = World(store, tree)
        settings = world.read(tree)
        endpoints = {"ops": endpoint_of("ops", settings.receivers["ops"], "http://127.0.0.1:8501")}

        def telling(changed: str) -> Telling:
            alerting = world.read(changed)
            return Telling(Routing.of(alerting), alerting.receivers)

        notifier = Notifier(store, endpoints, world.clock, telling=telling(tree))
        notifier.start()
        try:
            world.fire("t1", "t2")
            notifier.wake()
            assert hook.came(1)
            by_task = tree.replace("group_by: [alertname]", "group_by: [task_id]")
            world.configure(by_task)
            notifier.follow(endpoints, telling(by_task))
            world.fire("t1", "t2", "t3")
            notifier.wake()
            assert hook.came(2)
            assert notifier.drain(20)
        finally:
            notifier.stop()
        told = [
            (body["groupKey"], [alert["labels"]["task_id"] for alert in body["alerts"]]) for _, body in hook.received
        ]
        assert [(key, sorted(tasks)) for key, tasks in told] == [
            ('{}:{alertname="slow"}', ["t1", "t2"]),
            ('{}:{task_id="t3"}', ["t3"]),
        ]
        assert {row.idempotency_key for row in store.notifications()} == {key for key, _ in hook.received}
        assert {row.status for row in store.notifications()} == {"delivered"}

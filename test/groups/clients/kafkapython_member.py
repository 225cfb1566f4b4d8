"""One group member on kafka-python, for the group suite.

kafkapython_member.py BOOTSTRAP TOPIC GROUP INSTANCE
"""
import logging
import signal
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaError

bootstrap, topic, group, instance = sys.argv[1:5]
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")  # on standard error
running = True


def stop(_signal, _frame):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        print("assigned", ",".join(str(p.partition) for p in assigned), flush=True)

    def on_partitions_revoked(self, revoked):
        print("revoked", ",".join(str(p.partition) for p in revoked), flush=True)


c = KafkaConsumer(
    bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
    session_timeout_ms=45000 if instance else 4000, heartbeat_interval_ms=500, fetch_max_wait_ms=100,
    **({"group_instance_id": instance} if instance else {}),
)
c.subscribe([topic], listener=Listener())
while running:
    # Long: a join that ends between two calls of poll is thrown away by kafka-python
    # (3.0.12, join_group_async: "or self._join_task.is_done") and begun again, and that
    # is a new rebalance for the whole group when the member leads it.
    batches = c.poll(timeout_ms=5000)
    for tp, records in batches.items():
        for r in records:
            print("record", tp.partition, r.offset, flush=True)
    if batches:
        try:
            c.commit()
        except KafkaError as e:  # the next owner reads it again
            print("commit", e, file=sys.stderr, flush=True)
c.close()

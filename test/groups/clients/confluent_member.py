"""One group member on confluent-kafka (librdkafka), for the group suite.

confluent_member.py BOOTSTRAP TOPIC GROUP INSTANCE PROTOCOL
PROTOCOL is eager, cooperative or consumer (KIP-848); INSTANCE may be "".
It prints what it was assigned, gave up and read, and leaves on SIGTERM.
"""
import signal
import sys

from confluent_kafka import Consumer, KafkaException

bootstrap, topic, group, instance, protocol = sys.argv[1:6]
conf = {
    "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
    "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "reconnect.backoff.max.ms": 500,
}
if instance:
    conf["group.instance.id"] = instance
if protocol == "consumer":
    conf["group.protocol"] = "consumer"
else:
    conf.update({
        "session.timeout.ms": 45000 if instance else 4000, "heartbeat.interval.ms": 500,
        "partition.assignment.strategy": "cooperative-sticky" if protocol == "cooperative" else "range",
    })

running = True


def stop(_signal, _frame):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)


def say(verb, parts):
    print(verb, ",".join(str(p.partition) for p in parts), flush=True)


c = Consumer(conf)
c.subscribe(
    [topic],
    on_assign=lambda _c, parts: say("assigned", parts),
    on_revoke=lambda _c, parts: say("revoked", parts),
    on_lost=lambda _c, parts: say("lost", parts),
)
while running:
    batch = [m for m in c.consume(50, 0.1) if m is not None]
    last = {}
    for m in batch:
        if m.error():
            print("error", m.error(), file=sys.stderr, flush=True)
            continue
        print("record", m.partition(), m.offset(), flush=True)
        last[m.partition()] = m
    for m in last.values():
        try:
            c.commit(message=m, asynchronous=False)
        except KafkaException as e:  # the next owner reads it again
            print("commit", e, file=sys.stderr, flush=True)
c.close()

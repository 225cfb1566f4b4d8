"""Produces and consumes with confluent-kafka (librdkafka), for the conformance suite.

confluent.py produce|consume BOOTSTRAP TOPIC CODEC COUNT
"""
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition, OFFSET_BEGINNING

verb, bootstrap, topic, codec, count = sys.argv[1:6]
count = int(count)

if verb == "produce":
    failed = []
    p = Producer({
        "bootstrap.servers": bootstrap, "compression.codec": codec, "acks": "all",
        "enable.idempotence": True, "linger.ms": 5,
    })
    for i in range(1, count + 1):
        p.produce(topic, str(i), on_delivery=lambda err, _msg: failed.append(err) if err else None)
        p.poll(0)
    left = p.flush(30)
    if left or failed:
        sys.exit(f"{left} not sent, failed: {failed[:3]}")
else:
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    c.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    total, seen, deadline = 0, 0, time.time() + 30
    while seen < count and time.time() < deadline:
        m = c.poll(1.0)
        if m is None:
            continue
        if m.error():
            sys.exit(str(m.error()))
        total += int(m.value())
        seen += 1
    if seen < count:
        sys.exit(f"only {seen} of {count} records within 30 s")
    print(total)
    c.close()

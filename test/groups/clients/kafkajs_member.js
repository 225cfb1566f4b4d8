// One group member on KafkaJS, for the group suite:
// node kafkajs_member.js BOOTSTRAP TOPIC GROUP
const { Kafka, logLevel } = require('kafkajs')
const [, , bootstrap, topic, groupId] = process.argv

async function main() {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { retries: 30, maxRetryTime: 1000 } })
  const consumer = kafka.consumer({ groupId, sessionTimeout: 4000, heartbeatInterval: 500, rebalanceTimeout: 5000, maxWaitTimeInMs: 100 })
  process.on('SIGTERM', () => consumer.disconnect().then(() => process.exit(0)))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => console.log('assigned', (payload.memberAssignment[topic] || []).join(',')))
  consumer.on(consumer.events.REBALANCING, () => console.log('revoked *'))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, heartbeat, isRunning, isStale }) => {
      let next
      for (const m of batch.messages) {
        if (!isRunning() || isStale()) break
        console.log('record', batch.partition, m.offset)
        next = String(BigInt(m.offset) + 1n)
      }
      if (next !== undefined) await consumer.commitOffsets([{ topic, partition: batch.partition, offset: next }])
      await heartbeat()
    },
  })
}

main().catch((err) => { console.error(err); process.exit(1) })

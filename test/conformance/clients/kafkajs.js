// Produces with KafkaJS, for the conformance suite, and reads the end offset
// back: node kafkajs.js produce BOOTSTRAP TOPIC CODEC COUNT
// KafkaJS consumes in groups only.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const [, , verb, bootstrap, topic, codec, count] = process.argv
const types = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

async function main() {
  const kafka = new Kafka({ clientId: 'conformance', brokers: [bootstrap], logLevel: logLevel.ERROR })
  if (verb !== 'produce') throw new Error(`unknown verb ${verb}`)
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  const messages = Array.from({ length: Number(count) }, (_, i) => ({ value: String(i + 1), partition: 0 }))
  await producer.send({ topic, compression: types[codec], messages })
  await producer.disconnect()
  const admin = kafka.admin()
  await admin.connect()
  const [end] = (await admin.fetchTopicOffsets(topic)).filter((p) => p.partition === 0)
  await admin.disconnect()
  if (Number(end.high) !== Number(count)) throw new Error(`end offset is ${end.high}, want ${count}`)
}

main().catch((err) => { console.error(err); process.exit(1) })

// A client of kafkajs for the interop tests: write.js BOOTSTRAP TOPIC CODEC creates the topic, sends the rows that it
// reads from its input to partition 0, and prints the topic's offsets. A row is a JSON array a line: time, key,
// value, headers. Bytes are base64, null is null.
const { CompressionTypes, Kafka, logLevel } = require("kafkajs");
const lines = require("fs").readFileSync(0, "utf8").split("\n").filter((line) => line);

const bytes = (text) => (text === null ? null : Buffer.from(text, "base64"));

function message(line) {
  const [time, key, value, pairs] = JSON.parse(line);
  const headers = {};
  for (const [name, each] of pairs) (headers[name] ??= []).push(bytes(each));
  return { partition: 0, timestamp: String(time), key: bytes(key), value: bytes(value), headers };
}

async function main(bootstrap, topic, codec) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const compression = codec === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None;
  await producer.send({ topic, compression, acks: -1, messages: lines.map(message) });
  await producer.disconnect();
  console.log(JSON.stringify(await admin.fetchTopicOffsets(topic)));
  await admin.disconnect();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});

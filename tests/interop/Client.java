// Kafka's own Java client behind standard input and output: a JSON command a line in, a JSON answer a
// line out. Run from source: java -cp 'libs/*' Client.java BOOTSTRAP. Bytes are base64, null is null.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", answerTo(JSON.readTree(line)));
            } catch (Throwable error) {
                answer.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
        producers.values().forEach(producer -> producer.close(Duration.ofSeconds(5)));
        admin.close(Duration.ofSeconds(5));
    }

    private static JsonNode answerTo(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "create":
                admin.createTopics(List.of(new NewTopic(text(command, "topic"), 1, (short) 1)
                        .configs(settings(command)))).all().get();
                return null;
            case "open":
                producers.put(text(command, "producer"), producer(settings(command)));
                return null;
            case "close":
                producers.remove(text(command, "producer")).close(Duration.ofSeconds(30));
                return null;
            case "init":
                producers.get(text(command, "producer")).initTransactions();
                return null;
            case "begin":
                producers.get(text(command, "producer")).beginTransaction();
                return null;
            case "commit":
                producers.get(text(command, "producer")).commitTransaction();
                return null;
            case "abort":
                producers.get(text(command, "producer")).abortTransaction();
                return null;
            case "send":
                return send(command);
            case "read":
                return read(command);
            case "consume":
                return consume(command);
            case "offsets":
                return offsets(new TopicPartition(text(command, "topic"), 0));
            case "times":
                return times(new TopicPartition(text(command, "topic"), 0), command.get("times"));
            case "delete":
                admin.deleteRecords(Map.of(new TopicPartition(text(command, "topic"), 0),
                        RecordsToDelete.beforeOffset(command.get("before").asLong()))).all().get();
                return null;
            default:
                throw new IllegalArgumentException("unknown command: " + command);
        }
    }

    // Lingers until it is flushed, so that the records of one "send" are one batch.
    private static KafkaProducer<byte[], byte[]> producer(Map<String, String> settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", "600000",
                "delivery.timeout.ms", "900000", "batch.size", "4000000", "max.request.size", "8000000",
                "buffer.memory", "67108864"));
        all.putAll(settings);
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
        if (settings.containsKey("transactional.id")) {
            producer.initTransactions();
        }
        return producer;
    }

    private static JsonNode send(JsonNode command) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producers.get(text(command, "producer"));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode fields : command.get("records")) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(text(command, "topic"), 0,
                    fields.get(0).asLong(), bytes(fields.get(1)), bytes(fields.get(2)));
            for (JsonNode header : fields.get(3)) {
                record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            }
            sent.add(producer.send(record));
        }
        producer.flush();
        ArrayNode found = JSON.createArrayNode();
        for (Future<RecordMetadata> each : sent) {
            found.add(each.get().offset());
        }
        return found;
    }

    // Everything that a consumer of this isolation sees up to the end that it is told.
    private static JsonNode read(JsonNode command) {
        TopicPartition partition = new TopicPartition(text(command, "topic"), 0);
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level",
                text(command, "isolation"), "auto.offset.reset", "none", "check.crcs", "true");
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (consumer.position(partition) < end) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("stuck at " + consumer.position(partition) + " of " + end);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    found.add(fields(record));
                }
            }
        }
        return found;
    }

    // What a group has not read yet, up to the end that it is told, or up to where it stands still; committed.
    private static JsonNode consume(JsonNode command) {
        TopicPartition partition = new TopicPartition(text(command, "topic"), 0);
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", text(command, "group"),
                "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(partition.topic()));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long deadline = System.nanoTime() + 1_000_000L * command.get("patience").asLong();
            boolean isDone = false;
            while (!isDone && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    found.add(fields(record));
                }
                isDone = consumer.assignment().contains(partition) && consumer.position(partition) >= end;
            }
            consumer.commitSync();
        }
        return found;
    }

    private static ArrayNode fields(ConsumerRecord<byte[], byte[]> record) {
        ArrayNode headers = JSON.createArrayNode();
        for (Header header : record.headers()) {
            headers.add(JSON.createArrayNode().add(header.key()).add(text(header.value())));
        }
        Optional<Integer> epoch = record.leaderEpoch();
        return JSON.createArrayNode().add(record.offset()).add(record.timestamp()).add(text(record.key()))
                .add(text(record.value())).add(headers).add(epoch.orElse(-1));
    }

    private static JsonNode offsets(TopicPartition partition) throws Exception {
        ObjectNode found = JSON.createObjectNode();
        found.put("start", admin.listOffsets(Map.of(partition, OffsetSpec.earliest()))
                .partitionResult(partition).get().offset());
        found.put("end", admin.listOffsets(Map.of(partition, OffsetSpec.latest()))
                .partitionResult(partition).get().offset());
        return found;
    }

    // For each time the first record from it on: [timestamp, offset], or null.
    private static JsonNode times(TopicPartition partition, JsonNode wanted) {
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap),
                new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (JsonNode time : wanted) {
                OffsetAndTimestamp first = consumer.offsetsForTimes(Map.of(partition, time.asLong())).get(partition);
                found.add(first == null ? JSON.nullNode() : JSON.createArrayNode().add(first.timestamp()).add(first.offset()));
            }
        }
        return found;
    }

    private static Map<String, String> settings(JsonNode command) {
        Map<String, String> found = new HashMap<>();
        command.get("config").properties().forEach(entry -> found.put(entry.getKey(), entry.getValue().asText()));
        return found;
    }

    private static String text(JsonNode command, String name) {
        return command.get(name).asText();
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}

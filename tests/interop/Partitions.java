// Which partition Kafka's Java client picks for random keys, as lines "key in hex,partitions,partition".
//
//   java -cp 'libs/*' Partitions.java SEED COUNT                      asks its partitioner
//   java -cp 'libs/*' Partitions.java SEED COUNT BOOTSTRAP TOPIC N    sends them to a new topic of N partitions

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Partitions {
    private static final int[] COUNTS = {1, 2, 3, 4, 7, 16, 50, 256, 10_000};

    public static void main(String[] args) throws Exception {
        List<byte[]> keys = keys(Long.parseLong(args[0]), Integer.parseInt(args[1]));
        StringBuilder lines = new StringBuilder();
        if (args.length == 2) {
            for (int n = 0; n < keys.size(); n++) {
                int count = COUNTS[n % COUNTS.length];
                add(lines, keys.get(n), count, BuiltInPartitioner.partitionForKey(keys.get(n), count));
            }
        } else {
            int count = Integer.parseInt(args[4]);
            List<RecordMetadata> sent = send(keys, args[2], args[3], count);
            for (int n = 0; n < keys.size(); n++) {
                add(lines, keys.get(n), count, sent.get(n).partition());
            }
        }
        System.out.print(lines);
    }

    // Of every length to 40, the empty one among them.
    private static List<byte[]> keys(long seed, int count) {
        Random random = new Random(seed);
        List<byte[]> keys = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            byte[] key = new byte[n % 41];
            random.nextBytes(key);
            keys.add(key);
        }
        return keys;
    }

    private static void add(StringBuilder lines, byte[] key, int count, int partition) {
        lines.append(HexFormat.of().formatHex(key)).append(',').append(count).append(',').append(partition).append('\n');
    }

    private static List<RecordMetadata> send(List<byte[]> keys, String bootstrap, String topic, int count)
            throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, count, (short) 1))).all().get();
        }
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (byte[] key : keys) {
                futures.add(producer.send(new ProducerRecord<>(topic, key, new byte[0])));
            }
        }
        List<RecordMetadata> sent = new ArrayList<>();
        for (Future<RecordMetadata> future : futures) {
            sent.add(future.get());
        }
        return sent;
    }
}

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Scanner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.OffsetAndMetadata;

/**
 * What Kafka's own classes write into __consumer_offsets, one line for each line of input.
 *
 * In:  group, topic, partition, offset, leader epoch or -1, metadata, commit time, expiry or -1, topic id as hex,
 *      separated by tabs; group, topic and metadata as hex of their UTF-8.
 * Out: key, value of a tombstone's or a commit's record in hex, and the group's partition of 50.
 */
public class OffsetRecords {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        HexFormat hex = HexFormat.of();
        while (lines.hasNextLine()) {
            String[] fields = lines.nextLine().split("\t", -1);
            String group = text(fields[0]);
            int epoch = Integer.parseInt(fields[4]);
            long expiry = Long.parseLong(fields[7]);
            byte[] id = hex.parseHex(fields[8]);
            java.nio.ByteBuffer halves = java.nio.ByteBuffer.wrap(id);
            CoordinatorRecord record = GroupCoordinatorRecordHelpers.newOffsetCommitRecord(
                group, text(fields[1]), Integer.parseInt(fields[2]),
                new OffsetAndMetadata(
                    Long.parseLong(fields[3]),
                    epoch < 0 ? OptionalInt.empty() : OptionalInt.of(epoch),
                    text(fields[5]),
                    Long.parseLong(fields[6]),
                    expiry < 0 ? OptionalLong.empty() : OptionalLong.of(expiry),
                    new Uuid(halves.getLong(), halves.getLong())));
            System.out.println(hex.formatHex(serde.serializeKey(record)) + "\t"
                + hex.formatHex(serde.serializeValue(record)) + "\t" + Utils.abs(group.hashCode()) % 50);
        }
    }

    private static String text(String utf8) {
        return new String(HexFormat.of().parseHex(utf8), StandardCharsets.UTF_8);
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * What Kafka's assignors answer, and what its clients write inside JoinGroup and SyncGroup: a line for each line.
 *
 * In:  {"assignor": NAME, "topics": {TOPIC: [[RACK, ...] of each partition]}, "members": {ID: MEMBER}}
 *      {"bytes": MEMBER}
 *      MEMBER is [[TOPIC, ...], [[TOPIC, PARTITION], ...] owned, generation, instance id, rack, user data in hex].
 * Out: {ID: [[TOPIC, PARTITION], ...]}, or {"error": TEXT} where Kafka's assignor fails
 *      [subscription of versions 0 to 3, assignment of versions 0 to 3, user data of sticky, of cooperative-sticky],
 *      in hex; the assignment is that of the owned partitions.
 */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        System.setOut(new PrintStream(java.io.OutputStream.nullOutputStream())); // the assignors' log
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            out.println(JSON.writeValueAsString(asked.has("bytes") ? bytes(asked.get("bytes")) : assigned(asked)));
        }
        out.flush();
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static JsonNode assigned(JsonNode asked) {
        Map<String, Subscription> members = new HashMap<>(); // as the client of the group's leader has them
        asked.get("members").properties().forEach(one -> members.put(one.getKey(), subscription(one.getValue())));
        Map<String, Assignment> found;
        try {
            found = assignor(asked.get("assignor").asText())
                .assign(cluster(asked.get("topics")), new GroupSubscription(members)).groupAssignment();
        } catch (NullPointerException error) { // a bug of its own, of a claim by an older generation
            return JSON.createObjectNode().put("error", error.getMessage());
        }
        ObjectNode answer = JSON.createObjectNode();
        found.forEach((id, assignment) -> {
            ArrayNode partitions = answer.putArray(id);
            for (TopicPartition one : assignment.partitions()) {
                partitions.addArray().add(one.topic()).add(one.partition());
            }
        });
        return answer;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        Node noRack = new Node(1000, "h", 1);
        nodes.put("no rack", noRack);
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.properties().forEach(topic -> {
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(rack.asText(), name -> new Node(nodes.size(), "h", 1, name)));
                }
                Node[] all = replicas.isEmpty() ? new Node[] {noRack} : replicas.toArray(new Node[0]);
                int index = (int) partitions.stream().filter(one -> one.topic().equals(topic.getKey())).count();
                partitions.add(new PartitionInfo(topic.getKey(), index, all[0], all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get(0).forEach(topic -> topics.add(topic.asText()));
        ByteBuffer data = member.get(5).isNull() ? null : ByteBuffer.wrap(HEX.parseHex(member.get(5).asText()));
        Subscription found = new Subscription(
            topics, data, owned(member), member.get(2).asInt(), Optional.ofNullable(member.get(4).textValue()));
        found.setGroupInstanceId(Optional.ofNullable(member.get(3).textValue()));
        return found;
    }

    private static List<TopicPartition> owned(JsonNode member) {
        List<TopicPartition> owned = new ArrayList<>();
        member.get(1).forEach(one -> owned.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        return owned;
    }

    @SuppressWarnings("removal")
    private static JsonNode bytes(JsonNode member) {
        ArrayNode answer = JSON.createArrayNode();
        Subscription subscription = subscription(member);
        for (short version = 0; version <= 3; version++) {
            answer.add(hex(ConsumerProtocol.serializeSubscription(subscription, version)));
        }
        Assignment assignment = new Assignment(subscription.ownedPartitions(), subscription.userData());
        for (short version = 0; version <= 3; version++) {
            answer.add(hex(ConsumerProtocol.serializeAssignment(assignment, version)));
        }
        for (String name : List.of("sticky", "cooperative-sticky")) {
            ConsumerPartitionAssignor assignor = assignor(name);
            int generation = member.get(2).asInt();
            assignor.onAssignment(assignment, new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
            answer.add(hex(assignor.subscriptionUserData(Set.copyOf(subscription.topics()))));
        }
        return answer;
    }

    private static String hex(ByteBuffer buffer) {
        byte[] found = new byte[buffer.remaining()];
        buffer.duplicate().get(found);
        return HEX.formatHex(found);
    }
}

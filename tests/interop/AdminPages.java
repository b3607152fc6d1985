// The calls of Kafka's Java Admin that kafka-ui, AKHQ and Redpanda Console make when they start and on their pages.
// Run from source: java -cp 'libs/*' AdminPages.java BOOTSTRAP TOPIC TIME. One line of JSON for each call: its name, and
// either "result" or "error", the class of the exception. Partition 0 of the topic is the one that is looked at.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

public class AdminPages {
    private interface Call {
        JsonNode made() throws Exception;
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static Admin admin;

    @SuppressWarnings("removal") // the consoles call what is marked for it
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        TopicPartition place = new TopicPartition(topic, 0);
        admin = Admin.create(Map.of("bootstrap.servers", args[0], "default.api.timeout.ms", "600000"));

        print("describeCluster", () -> cluster(admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true))));
        print("describeClusterFenced", () -> cluster(admin.describeCluster(
                new DescribeClusterOptions().includeFencedBrokers(true))));
        print("describeFeatures", () -> {
            var found = get(admin.describeFeatures().featureMetadata());
            return JSON.createObjectNode().put("finalized", found.finalizedFeatures().size())
                    .put("supported", found.supportedFeatures().size());
        });
        for (boolean isInternalToo : List.of(true, false)) {
            print(isInternalToo ? "listTopicsInternal" : "listTopics", () -> {
                ObjectNode all = JSON.createObjectNode();
                for (TopicListing each : get(admin.listTopics(
                        new ListTopicsOptions().listInternal(isInternalToo)).listings())) {
                    all.put(each.name(), each.isInternal());
                }
                return all;
            });
        }
        DescribeTopicsOptions withRights = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        Uuid[] id = {Uuid.ZERO_UUID};
        print("describeTopics", () -> {
            TopicDescription found = get(admin.describeTopics(List.of(topic), withRights).allTopicNames()).get(topic);
            id[0] = found.topicId();
            return described(found);
        });
        print("describeTopicsById", () -> described(get(admin.describeTopics(
                TopicCollection.ofTopicIds(List.of(id[0])), withRights).allTopicIds()).get(id[0])));
        print("describeTopicsUnknown", () -> described(
                get(admin.describeTopics(List.of("nowhere")).allTopicNames()).get("nowhere")));
        print("topicConfigs", () -> configs(new ConfigResource(ConfigResource.Type.TOPIC, topic)));
        print("brokerConfigs", () -> configs(new ConfigResource(ConfigResource.Type.BROKER, "1")));
        print("defaultBrokerConfigs", () -> configs(new ConfigResource(ConfigResource.Type.BROKER, "")));
        print("loggerConfigs", () -> configs(new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1")));
        print("describeLogDirs", () -> {
            ArrayNode all = JSON.createArrayNode();
            for (Map<String, LogDirDescription> of : get(admin.describeLogDirs(List.of(1)).allDescriptions()).values()) {
                of.forEach((path, found) -> {
                    ObjectNode sizes = JSON.createObjectNode();
                    found.replicaInfos().forEach((each, replica) -> sizes.put(each.toString(), replica.size()));
                    all.addObject().put("path", path).put("total", found.totalBytes().orElse(-1))
                            .put("usable", found.usableBytes().orElse(-1)).set("sizes", sizes);
                });
            }
            return all;
        });
        print("describeReplicaLogDirs", () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, 1);
            var found = get(admin.describeReplicaLogDirs(List.of(replica)).all()).get(replica);
            return JSON.createObjectNode().put("path", found.getCurrentReplicaLogDir())
                    .put("lag", found.getCurrentReplicaOffsetLag());
        });
        Map<String, OffsetSpec> specs = new LinkedHashMap<>();
        specs.put("earliest", OffsetSpec.earliest());
        specs.put("latest", OffsetSpec.latest());
        specs.put("maxTimestamp", OffsetSpec.maxTimestamp());
        specs.put("forTimestamp", OffsetSpec.forTimestamp(Long.parseLong(args[2])));
        specs.put("earliestLocal", OffsetSpec.earliestLocal());
        specs.put("latestTiered", OffsetSpec.latestTiered());
        specs.put("earliestPendingUpload", OffsetSpec.earliestPendingUpload());
        specs.forEach((name, spec) -> print(name, () -> offset(place, spec, IsolationLevel.READ_UNCOMMITTED)));
        print("latestCommitted", () -> offset(place, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED));
        print("describeProducers", () -> {
            ArrayNode all = JSON.createArrayNode();
            for (ProducerState each : get(admin.describeProducers(List.of(place)).partitionResult(place))
                    .activeProducers()) {
                all.addObject().put("id", each.producerId()).put("epoch", each.producerEpoch())
                        .put("sequence", each.lastSequence()).put("timestamp", each.lastTimestamp())
                        .put("transaction", each.currentTransactionStartOffset().orElse(-1));
            }
            return all;
        });
        print("listPartitionReassignments", () ->
                JSON.createObjectNode().put("count", get(admin.listPartitionReassignments().reassignments()).size()));
        print("listConfigResources", () -> {
            ArrayNode all = JSON.createArrayNode();
            get(admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER),
                    new ListConfigResourcesOptions()).all()).forEach(each -> all.add(each.type() + " " + each.name()));
            return all;
        });

        // What a broker of one node without groups, transactions and rights has no answer to.
        print("listConsumerGroups", () -> text(get(admin.listConsumerGroups().all())));
        print("listGroups", () -> text(get(admin.listGroups().all())));
        print("describeConsumerGroups", () -> text(get(admin.describeConsumerGroups(List.of("g")).all())));
        print("listConsumerGroupOffsets", () ->
                text(get(admin.listConsumerGroupOffsets("g").partitionsToOffsetAndMetadata())));
        print("deleteConsumerGroups", () -> text(get(admin.deleteConsumerGroups(List.of("g")).all())));
        print("describeMetadataQuorum", () -> text(get(admin.describeMetadataQuorum().quorumInfo())));
        print("listTransactions", () -> text(get(admin.listTransactions().all())));
        print("describeTransactions", () -> text(get(admin.describeTransactions(List.of("t")).all())));
        print("describeAcls", () -> text(get(admin.describeAcls(AclBindingFilter.ANY).values())));
        print("describeClientQuotas", () -> text(get(admin.describeClientQuotas(ClientQuotaFilter.all()).entities())));
        print("describeUserScramCredentials", () -> text(get(admin.describeUserScramCredentials().all())));
        print("describeDelegationToken", () -> text(get(admin.describeDelegationToken().delegationTokens())));
        print("describeShareGroups", () -> text(get(admin.describeShareGroups(List.of("g")).all())));
        admin.close();
    }

    // A call that hangs is a TimeoutException of java.util.concurrent: the client's own limit is ten times as long.
    private static <T> T get(KafkaFuture<T> future) throws Exception {
        try {
            return future.get(60, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    private static void print(String name, Call call) {
        ObjectNode line = JSON.createObjectNode().put("call", name);
        try {
            line.set("result", call.made());
        } catch (Exception error) {
            line.put("error", error.getClass().getSimpleName()).put("message", String.valueOf(error.getMessage()));
        }
        System.out.println(line);
    }

    private static JsonNode cluster(DescribeClusterResult found) throws Exception {
        ObjectNode told = JSON.createObjectNode().put("id", get(found.clusterId()));
        Node controller = get(found.controller());
        told.put("controller", controller == null ? -1 : controller.id());
        ArrayNode nodes = told.putArray("nodes");
        get(found.nodes()).forEach(each -> nodes.add(each.id() + " " + each.host() + ":" + each.port()
                + (each.isFenced() ? " fenced" : "")));
        told.set("rights", rights(get(found.authorizedOperations())));
        return told;
    }

    private static JsonNode described(TopicDescription found) {
        ObjectNode told = JSON.createObjectNode().put("name", found.name()).put("id", found.topicId().toString())
                .put("internal", found.isInternal());
        ArrayNode partitions = told.putArray("partitions");
        for (TopicPartitionInfo each : found.partitions()) {
            partitions.addObject().put("partition", each.partition()).put("leader", each.leader().id())
                    .put("replicas", each.replicas().size()).put("isr", each.isr().size());
        }
        told.set("rights", rights(found.authorizedOperations()));
        return told;
    }

    private static ArrayNode rights(Set<AclOperation> operations) {
        ArrayNode all = JSON.createArrayNode();
        if (operations != null && !operations.isEmpty()) {
            EnumSet.copyOf(operations).forEach(each -> all.add(each.name()));
        }
        return all;
    }

    private static JsonNode configs(ConfigResource resource) throws Exception {
        ObjectNode all = JSON.createObjectNode();
        DescribeConfigsOptions everything =
                new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        for (ConfigEntry each : get(admin.describeConfigs(List.of(resource), everything).all()).get(resource).entries()) {
            all.putObject(each.name()).put("value", each.value()).put("source", each.source().name())
                    .put("type", each.type().name()).put("readOnly", each.isReadOnly())
                    .put("synonyms", each.synonyms().size())
                    .put("documented", each.documentation() != null && !each.documentation().isEmpty());
        }
        return all;
    }

    private static JsonNode offset(TopicPartition place, OffsetSpec spec, IsolationLevel isolation) throws Exception {
        ListOffsetsResultInfo found = get(
                admin.listOffsets(Map.of(place, spec), new ListOffsetsOptions(isolation)).partitionResult(place));
        return JSON.createObjectNode().put("offset", found.offset()).put("timestamp", found.timestamp());
    }

    private static JsonNode text(Object answer) {
        return JSON.createObjectNode().put("text",
                answer instanceof Collection<?> all ? all.toString() : String.valueOf(answer));
    }
}

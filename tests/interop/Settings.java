import java.io.FileInputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints Kafka's own definitions of its settings as JSON: scope, key, type, default, what is valid.
 * Given a file, prints instead what Java reads in it as properties.
 */
public class Settings {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1) {
            Properties read = new Properties();
            try (FileInputStream file = new FileInputStream(arguments[0])) {
                read.load(file);
            }
            List<String> pairs = new ArrayList<>();
            read.forEach((key, value) -> pairs.add(quoted((String) key) + ": " + quoted((String) value)));
            System.out.println("{" + String.join(", ", pairs) + "}");
            return;
        }
        Map<String, ConfigDef> scopes = new TreeMap<>();
        scopes.put("topic", LogConfig.configDefCopy());
        scopes.put("broker", AbstractKafkaConfig.CONFIG_DEF);
        scopes.put("producer", ProducerConfig.configDef());
        scopes.put("consumer", ConsumerConfig.configDef());
        List<String> lines = new ArrayList<>();
        for (Map.Entry<String, ConfigDef> scope : scopes.entrySet()) {
            for (ConfigDef.ConfigKey key : new TreeMap<>(scope.getValue().configKeys()).values()) {
                lines.add(line(scope.getKey(), key));
            }
        }
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }

    private static String line(String scope, ConfigDef.ConfigKey key) {
        boolean required = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
        Object fallback = required || key.defaultValue == null
            ? null : ConfigDef.convertToString(key.defaultValue, key.type);
        List<String> synonyms = new ArrayList<>();
        if (scope.equals("topic")) {
            var known = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.get(key.name);
            if (known != null) {
                known.forEach(each -> synonyms.add(quoted(each.name())));
            }
        }
        return "{\"scope\": " + quoted(scope) + ", \"key\": " + quoted(key.name)
            + ", \"type\": " + quoted(key.type.toString().toLowerCase())
            + ", \"required\": " + required + ", \"internal\": " + key.internalConfig
            + ", \"default\": " + (fallback == null ? "null" : quoted(fallback.toString()))
            + ", \"valid\": " + (key.validator == null ? "null" : quoted(key.validator.toString()))
            + ", \"synonyms\": [" + String.join(", ", synonyms) + "]}";
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                out.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        return out.append('"').toString();
    }
}

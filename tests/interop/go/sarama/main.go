// A client of sarama for the interop tests. write BOOTSTRAP TOPIC CODEC sends the rows that it reads from its input
// to partition 0, a JSON array a line: time, key, value, headers. read BOOTSTRAP TOPIC ISOLATION prints what is
// there, with the offset first. Bytes are base64, null is null.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	act := read
	if os.Args[1] == "write" {
		act = write
	}
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	if err := act(config, []string{os.Args[2]}, os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(config *sarama.Config, servers []string, topic, codec string) error {
	if err := config.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(servers, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	lines := json.NewDecoder(bufio.NewReader(os.Stdin))
	for lines.More() {
		var at int64
		var key, value []byte
		var headers [][]json.RawMessage
		if err := lines.Decode(&[]any{&at, &key, &value, &headers}); err != nil {
			return err
		}
		message := &sarama.ProducerMessage{Topic: topic, Partition: 0, Timestamp: time.UnixMilli(at)}
		if key != nil {
			message.Key = sarama.ByteEncoder(key)
		}
		if value != nil {
			message.Value = sarama.ByteEncoder(value)
		}
		for _, each := range headers {
			var name string
			var value []byte
			if err := json.Unmarshal(each[0], &name); err != nil {
				return err
			}
			if err := json.Unmarshal(each[1], &value); err != nil {
				return err
			}
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(name), Value: value})
		}
		messages = append(messages, message)
	}
	return producer.SendMessages(messages)
}

func read(config *sarama.Config, servers []string, topic, isolation string) error {
	if isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewClient(servers, config)
	if err != nil {
		return err
	}
	defer client.Close()
	end, err := client.GetOffset(topic, 0, sarama.OffsetNewest)
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer partition.AsyncClose()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := json.NewEncoder(out)
	for {
		select {
		case message := <-partition.Messages():
			headers := make([][]any, 0)
			for _, each := range message.Headers {
				headers = append(headers, []any{string(each.Key), each.Value})
			}
			fields := []any{message.Offset, message.Timestamp.UnixMilli(), message.Key, message.Value, headers}
			if err := lines.Encode(fields); err != nil {
				return err
			}
			if message.Offset+1 >= end {
				return nil
			}
		case <-time.After(time.Minute):
			return fmt.Errorf("no record within a minute; the end is %d", end)
		}
	}
}

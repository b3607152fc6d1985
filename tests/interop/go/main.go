// A Go client that reads a whole partition, for the interop tests: read BOOTSTRAP TOPIC ISOLATION prints a
// JSON array for each record that a consumer of that isolation sees. Bytes are base64, null is null.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := read(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(bootstrap, topic, isolation string) error {
	level := kgo.ReadUncommitted()
	if isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(level),
		kgo.KeepControlRecords(), // else nothing tells that only markers are left
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := json.NewEncoder(out)
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		atEnd := false
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, record := range p.Records {
				atEnd = record.Offset+1 >= p.HighWatermark
				if !record.Attrs.IsControl() && err == nil {
					err = lines.Encode(fields(record))
				}
			}
		})
		if atEnd || err != nil {
			return err
		}
	}
}

func fields(record *kgo.Record) []any {
	headers := make([][]any, 0)
	for _, header := range record.Headers {
		headers = append(headers, []any{header.Key, header.Value})
	}
	return []any{record.Offset, record.Timestamp.UnixMilli(), record.Key, record.Value, headers}
}

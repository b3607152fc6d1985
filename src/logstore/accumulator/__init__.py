"""One accumulator for every writer of single records: batches, linger, futures, memory, close.

It stands below the log, the producer and the client of brokers and knows none of them: a partition is handed in
as a `syncing.AppendableLog`, whose `_append_encoded` is the function that writes a batch.

- `_batcher`: the work of each record. `FastBatcher` is the open batch; `FastSend` chooses one of many batchers and
  returns a future, `FastAppend` has one and returns none. `BatchResult` is the delivery result of a batch.
- `partition_batcher.PartitionBatcher`: one partition. ``add(value, key, timestamp, headers) -> SendFuture`` opens
  and seals batches, ``write(force, wait, ack) -> WriteTurn`` writes them in order, with sequences and retries,
  ``close(refusal)`` ends the adding, ``abandon(error)`` answers what is left. `Shared` is what the batchers of one
  producer have in common.
- `memory.BufferMemory`: bytes that open and sealed batches may take. `syncing.Syncing`: answers after a sync.
- `lifecycle.Gathering`: the life of the object that has batchers: fork, ``with`` block, the drop without `close`.
- `timer.TICKER`: the thread that ticks every object with timed work, logs with ``flush.ms`` included.
"""

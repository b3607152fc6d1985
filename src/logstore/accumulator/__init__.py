"""Accumulator shared by all writers of single records: batches, linger, futures, memory, close.

It imports neither the log nor a producer: the caller passes a partition as a `syncing.AppendableLog`, whose
`_append_encoded` writes a batch.

- `_batcher`: the work of each record. `FastBatcher` adds records to the open batch. `FastSend` chooses one of many
  batchers and returns a future; `FastAppend` has one batcher and returns no future. `BatchResult` is the delivery
  result of a batch.
- `partition_batcher.PartitionBatcher`: one partition. ``add(value, key, timestamp, headers) -> SendFuture`` opens
  and seals batches. ``write(force, wait, ack) -> WriteTurn`` writes them in order, with sequences and retries.
  ``close(refusal)`` refuses further records. ``abandon(error)`` fails the batches that are not written.
- `_partition_batches`: its compiled steps. `Shared` is the state that all batchers of one producer share.
- `_memory.BufferMemory`: bytes that open and sealed batches may take. `syncing.Syncing`: acknowledges after a sync.
- `replicated_batcher.ReplicatedBatcher`: one partition whose batches wait for acks of replicas; `acknowledging` has
  the thread that answers them.
- `lifecycle.Gathering`: base of an object with batchers: fork check, ``with`` block, drop without `close`.
- `timer.TICKER`: the thread that ticks producers, buffered appenders, and logs with ``flush.ms``;
  `_alarms` says when.
"""

"""Settings as keyword arguments: type checkers refuse a misspelt key and a value of a wrong type.

Written by ``python -m codegen.keywords`` from the classes of settings: change those, and nothing here.

    def producer(**settings: Unpack[ProducerSettings]) -> Producer: ...
"""

from typing import TypedDict


class LogSettings(TypedDict, total=False):
    """Settings of a topic or a log."""

    segment_bytes: int | str
    segment_ms: int | str
    segment_jitter_ms: int | str
    segment_index_bytes: int | str
    index_interval_bytes: int | str
    preallocate: bool
    max_message_bytes: int | str
    message_timestamp_type: str
    message_timestamp_before_max_ms: int | str
    message_timestamp_after_max_ms: int | str
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    min_insync_replicas: int
    flush_messages: int
    flush_ms: int | str
    cleanup_policy: str
    retention_ms: int | str
    retention_bytes: int | str
    delete_retention_ms: int | str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int | str
    max_compaction_lag_ms: int | str
    unclean_leader_election_enable: bool
    producer_id_expiration_ms: int | str
    ack: str
    visible_after: str
    tail: str
    tail_bytes: int | str
    write_strategy: str
    linger_ms: int | str
    batch_bytes: int | str
    replicated: bool
    offset_mode: str
    decompressed_max_bytes: int | str


class TopicChanges(TypedDict, total=False):
    """Changes of a topic's settings; None resets a key."""

    segment_bytes: int | str | None
    segment_ms: int | str | None
    segment_jitter_ms: int | str | None
    segment_index_bytes: int | str | None
    index_interval_bytes: int | str | None
    preallocate: bool | None
    max_message_bytes: int | str | None
    message_timestamp_type: str | None
    message_timestamp_before_max_ms: int | str | None
    message_timestamp_after_max_ms: int | str | None
    compression_type: str | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    min_insync_replicas: int | None
    flush_messages: int | None
    flush_ms: int | str | None
    cleanup_policy: str | None
    retention_ms: int | str | None
    retention_bytes: int | str | None
    delete_retention_ms: int | str | None
    min_cleanable_dirty_ratio: float | None
    min_compaction_lag_ms: int | str | None
    max_compaction_lag_ms: int | str | None
    unclean_leader_election_enable: bool | None
    producer_id_expiration_ms: int | str | None
    ack: str | None
    visible_after: str | None
    tail: str | None
    tail_bytes: int | str | None
    write_strategy: str | None
    linger_ms: int | str | None
    batch_bytes: int | str | None
    replicated: bool | None
    offset_mode: str | None
    decompressed_max_bytes: int | str | None


class StoreSettings(LogSettings, total=False):
    """Settings of a store, and of all its topics."""

    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    node_id: int
    log_dirs: str
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int | str
    offsets_retention_minutes: int | str
    offsets_retention_check_interval_ms: int | str
    offset_metadata_max_bytes: int | str
    log_retention_check_interval_ms: int | str
    log_flush_offset_checkpoint_interval_ms: int | str
    log_flush_start_offset_checkpoint_interval_ms: int | str
    producer_id_expiration_check_interval_ms: int | str
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_dedupe_buffer_size: int | str
    log_cleaner_io_max_bytes_per_second: float | str
    log_cleaner_backoff_ms: int | str
    housekeeping: str
    disk_budget: int | str
    disk_reserve: int | str


class ProducerSettings(TypedDict, total=False):
    """Settings of a producer."""

    batch_size: int | str
    linger_ms: int | str
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    max_request_size: int | str
    buffer_memory: int | str
    max_block_ms: int | str
    acks: str | int
    ack: str
    enable_idempotence: bool
    delivery_timeout_ms: int | str
    retries: int
    retry_backoff_ms: int | str
    partitioner_class: str
    partitioner_ignore_keys: bool


class ConsumerSettings(TypedDict, total=False):
    """Settings of a consumer."""

    group_id: str
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int | str
    max_poll_records: int
    fetch_max_bytes: int | str
    max_partition_fetch_bytes: int | str
    isolation_level: str


class ClientSettings(TypedDict, total=False):
    """Settings of a client of brokers."""

    bootstrap_servers: str
    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    metadata_max_age_ms: int
    security_protocol: str
    ssl_truststore_location: str
    ssl_truststore_type: str
    ssl_truststore_certificates: str
    ssl_truststore_password: str
    ssl_keystore_location: str
    ssl_keystore_type: str
    ssl_keystore_key: str
    ssl_keystore_certificate_chain: str
    ssl_keystore_password: str
    ssl_key_password: str
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: str
    sasl_mechanism: str
    sasl_jaas_config: str
    sasl_username: str
    sasl_password: str
    sasl_oauthbearer_token_endpoint_url: str
    sasl_oauthbearer_client_credentials_client_id: str
    sasl_oauthbearer_client_credentials_client_secret: str
    sasl_oauthbearer_scope: str
    sasl_oauthbearer_header_urlencode: bool
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    isolation_level: str
    client_rack: str
    acks: str | int
    enable_idempotence: bool
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    batch_size: int
    max_request_size: int
    buffer_memory: int
    max_in_flight_requests_per_connection: int
    retries: int
    delivery_timeout_ms: int

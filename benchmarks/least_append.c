/*
 * The least that an append of keyed records to several partitions takes: for each row the hash of its key and one copy
 * into the record batch of its partition, then for each partition a header with a CRC-32C, and one pwrite.
 *
 * It keeps no log: no lock, no marks, no index, and no limit of a batch. Rows are two Arrow columns without nulls, of
 * 31 to 8,000 bytes together, so that the length of each record takes two bytes. Batches are those of Kafka's protocol
 * guide (record batch v2); their base offset is 0. `benchmarks/least.py` compiles and calls it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "_crc32c.h"

enum { HEADER_BYTES = 61, MOST_PARTITIONS = 64 };

struct batch {
    uint8_t *data, *end;
    uint32_t count;
};

static inline void put32(uint8_t *p, uint32_t n)
{
    n = __builtin_bswap32(n);
    memcpy(p, &n, 4);
}

static inline void put64(uint8_t *p, uint64_t n)
{
    n = __builtin_bswap64(n);
    memcpy(p, &n, 8);
}

static inline uint8_t *put_varint(uint8_t *p, uint32_t n)
{
    n <<= 1;                      /* zigzag of a number that is not negative */
    for (; n >= 0x80; n >>= 7)
        *p++ = (uint8_t)(n | 0x80);
    *p++ = (uint8_t)n;
    return p;
}

static inline uint32_t murmur2(const uint8_t *p, uint32_t size)
{
    const uint32_t factor = 0x5BD1E995u;
    uint32_t h = 0x9747B28Cu ^ size, k;
    for (; size >= 4; size -= 4, p += 4) {
        memcpy(&k, p, 4);
        k *= factor;
        h = (h * factor) ^ ((k ^ k >> 24) * factor);
    }
    if (size == 3)
        h ^= (uint32_t)p[2] << 16;
    if (size >= 2)
        h ^= (uint32_t)p[1] << 8;
    if (size)
        h = (h ^ p[0]) * factor;
    h = (h ^ h >> 13) * factor;
    return h ^ h >> 15;
}

static uint8_t *close_batch(struct batch *batch, uint64_t timestamp_ms)
{
    uint8_t *p = batch->data;
    size_t size = (size_t)(batch->end - p);
    memset(p, 0, HEADER_BYTES);
    put32(p + 8, (uint32_t)size - 12);
    p[16] = 2;
    put32(p + 23, batch->count - 1);
    put64(p + 27, timestamp_ms);
    put64(p + 35, timestamp_ms);
    memset(p + 43, 0xFF, 14);     /* no producer */
    put32(p + 57, batch->count);
    put32(p + 17, logstore_crc32c(0, p + 21, size - 21));
    return p;
}

/* Reserve space in a new file, as a log does ahead of its end; its size stays 0. */
int least_reserve(int file, int64_t size)
{
    return fallocate(file, FALLOC_FL_KEEP_SIZE, 0, size);
}

/* Append rows to files, one for each partition, at their ends; space has space_each bytes for each. Returns 0, or -1. */
int least_append(uint32_t rows, const int32_t *key_starts, const uint8_t *keys, const int32_t *value_starts,
                 const uint8_t *values, uint64_t timestamp_ms, uint32_t partitions, const int *files, int64_t *ends,
                 uint8_t *space, size_t space_each)
{
    struct batch batches[MOST_PARTITIONS];
    if (partitions > MOST_PARTITIONS)
        return -1;
    for (uint32_t n = 0; n < partitions; n++)
        batches[n] = (struct batch){space + n * space_each, space + n * space_each + HEADER_BYTES, 0};
    for (uint32_t row = 0; row < rows; row++) {
        const uint8_t *key = keys + key_starts[row], *value = values + value_starts[row];
        uint32_t key_size = (uint32_t)(key_starts[row + 1] - key_starts[row]);
        uint32_t value_size = (uint32_t)(value_starts[row + 1] - value_starts[row]);
        struct batch *batch = &batches[(murmur2(key, key_size) & 0x7FFFFFFF) % partitions];
        uint8_t *record = batch->end, *p = record + 2;
        *p++ = 0;                 /* attributes, and the record's timestamp is the batch's */
        *p++ = 0;
        p = put_varint(p, batch->count++);
        p = put_varint(p, key_size);
        memcpy(p, key, key_size);
        p = put_varint(p + key_size, value_size);
        memcpy(p, value, value_size);
        p += value_size;
        *p++ = 0;                 /* no headers */
        uint32_t body = (uint32_t)(p - record - 2) << 1;
        record[0] = (uint8_t)(body | 0x80);
        record[1] = (uint8_t)(body >> 7);
        batch->end = p;
    }
    for (uint32_t n = 0; n < partitions; n++) {
        if (!batches[n].count)
            continue;
        uint8_t *data = close_batch(&batches[n], timestamp_ms);
        size_t size = (size_t)(batches[n].end - data);
        if (pwrite(files[n], data, size, ends[n]) != (ssize_t)size)
            return -1;
        ends[n] += (int64_t)size;
    }
    return 0;
}

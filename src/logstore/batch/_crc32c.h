/*
 * CRC-32C (Castagnoli), the checksum of a record batch from `attributes` to its end
 * (Kafka protocol guide, record batch v2).
 *
 * This header computes the checksum, and chooses the fastest way that this processor has. Every
 * module that sums bytes includes it, so each has its own pointer and its own tables; nothing is
 * exported. Any thread may call it, without the GIL.
 *
 * A batch is a polynomial over GF(2) whose first bit has the highest degree, and registers hold
 * polynomials reflected: bit i of n stands for x^(n-1-i). A carry-less product of two reflected
 * numbers comes out one bit low, that is multiplied by x. So to multiply by x^n into a register
 * that is not reduced, the constant in the low half of a word is x^(n-33) mod P. Every constant
 * LOGSTORE_CRC32C_X<n> is x^n mod P, reflected; tests/batch/test_crc32c.py computes each of them again.
 */
#ifndef LOGSTORE_CRC32C_H
#define LOGSTORE_CRC32C_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define LOGSTORE_CRC32C_ARM 1
#endif

/* Argument and result are finished checksums (0 for no bytes), so that calls compose. */
typedef uint32_t (*logstore_crc32c_fn)(uint32_t crc, const uint8_t *data, size_t size);

enum logstore_crc32c_way {
    LOGSTORE_CRC32C_VPCLMULQDQ,
    LOGSTORE_CRC32C_SSE42,
    LOGSTORE_CRC32C_ARM_CRC,
    LOGSTORE_CRC32C_TABLE,
    LOGSTORE_CRC32C_WAYS
};

/* --- any machine: eight bytes at a time through eight tables ------------------------------- */

#define LOGSTORE_CRC32C_POLYNOMIAL 0x82f63b78u

static uint32_t logstore_crc32c_tables[8][256];

static inline void logstore_crc32c_fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (LOGSTORE_CRC32C_POLYNOMIAL & (0u - (crc & 1u)));
        logstore_crc32c_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = logstore_crc32c_tables[table - 1][byte];
            logstore_crc32c_tables[table][byte] = (crc >> 8) ^ logstore_crc32c_tables[0][crc & 0xff];
        }
}

static inline uint32_t logstore_crc32c_load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint32_t logstore_crc32c_by_table(uint32_t crc, const uint8_t *p, size_t size)
{
    const uint32_t(*t)[256] = (const uint32_t(*)[256])logstore_crc32c_tables;
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t low = crc ^ logstore_crc32c_load_le32(p), high = logstore_crc32c_load_le32(p + 4);
        crc = t[7][low & 0xff] ^ t[6][low >> 8 & 0xff] ^ t[5][low >> 16 & 0xff] ^ t[4][low >> 24]
            ^ t[3][high & 0xff] ^ t[2][high >> 8 & 0xff] ^ t[1][high >> 16 & 0xff] ^ t[0][high >> 24];
    }
    for (; size > 0; size--, p++)
        crc = (crc >> 8) ^ t[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)

/* --- SSE4.2: three streams hide the instruction's latency of three cycles ------------------ */

#define LOGSTORE_CRC32C_SSE42_TARGET __attribute__((target("sse4.2,pclmul")))

#define LOGSTORE_CRC32C_LONG_BYTES 1024 /* of one stream; a round is three */
#define LOGSTORE_CRC32C_SHORT_BYTES 128

#define LOGSTORE_CRC32C_X16351 0xa51b6135u /* past two long streams: 16 * 1024 - 33 */
#define LOGSTORE_CRC32C_X8159 0x170076fau  /* past one: 8 * 1024 - 33 */
#define LOGSTORE_CRC32C_X2015 0xb9e02b86u /* past two short streams: 16 * 128 - 33 */
#define LOGSTORE_CRC32C_X991 0x0d3b6092u  /* past one: 8 * 128 - 33 */

LOGSTORE_CRC32C_SSE42_TARGET
static inline uint64_t logstore_crc32c_step(uint64_t state, const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return _mm_crc32_u64(state, word);
}

/* One stream. Argument and result are bare remainders, not inverted. */
LOGSTORE_CRC32C_SSE42_TARGET
static inline uint32_t logstore_crc32c_one_stream(uint32_t crc, const uint8_t *p, size_t size)
{
    uint64_t state = crc;
    for (; size >= 8; size -= 8, p += 8)
        state = logstore_crc32c_step(state, p);
    crc = (uint32_t)state;
    if (size & 4) {
        uint32_t word;
        memcpy(&word, p, sizeof word);
        crc = _mm_crc32_u32(crc, word);
        p += 4;
    }
    if (size & 2) {
        uint16_t word;
        memcpy(&word, p, sizeof word);
        crc = _mm_crc32_u16(crc, word);
        p += 2;
    }
    return size & 1 ? _mm_crc32_u8(crc, *p) : crc;
}

/* The remainder times a constant; `crc32` of the 64 bits then reduces it and adds x^32. */
LOGSTORE_CRC32C_SSE42_TARGET
static inline uint64_t logstore_crc32c_times(uint64_t crc, uint32_t constant)
{
    __m128i product = _mm_clmulepi64_si128(
        _mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)constant), 0x00);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

LOGSTORE_CRC32C_SSE42_TARGET
static inline uint32_t logstore_crc32c_three_streams(
    uint32_t crc, const uint8_t *p, size_t stream_bytes, uint32_t past_two, uint32_t past_one)
{
    uint64_t first = crc, second = 0, third = 0;
    for (const uint8_t *end = p + stream_bytes; p < end; p += 8) {
        first = logstore_crc32c_step(first, p);
        second = logstore_crc32c_step(second, p + stream_bytes);
        third = logstore_crc32c_step(third, p + 2 * stream_bytes);
    }
    uint64_t moved = logstore_crc32c_times(first, past_two) ^ logstore_crc32c_times(second, past_one);
    return (uint32_t)(_mm_crc32_u64(0, moved) ^ third);
}

LOGSTORE_CRC32C_SSE42_TARGET
static inline uint32_t logstore_crc32c_by_sse42(uint32_t crc, const uint8_t *p, size_t size)
{
    crc = ~crc;
    for (; size >= 3 * LOGSTORE_CRC32C_LONG_BYTES; size -= 3 * LOGSTORE_CRC32C_LONG_BYTES) {
        crc = logstore_crc32c_three_streams(
            crc, p, LOGSTORE_CRC32C_LONG_BYTES, LOGSTORE_CRC32C_X16351, LOGSTORE_CRC32C_X8159);
        p += 3 * LOGSTORE_CRC32C_LONG_BYTES;
    }
    for (; size >= 3 * LOGSTORE_CRC32C_SHORT_BYTES; size -= 3 * LOGSTORE_CRC32C_SHORT_BYTES) {
        crc = logstore_crc32c_three_streams(
            crc, p, LOGSTORE_CRC32C_SHORT_BYTES, LOGSTORE_CRC32C_X2015, LOGSTORE_CRC32C_X991);
        p += 3 * LOGSTORE_CRC32C_SHORT_BYTES;
    }
    return ~logstore_crc32c_one_stream(crc, p, size);
}

/* --- VPCLMULQDQ: four registers of four lanes, each folded over what follows it ------------ */

#define LOGSTORE_CRC32C_AVX512_TARGET \
    __attribute__((target("avx512f,avx512vl,avx512bw,vpclmulqdq,sse4.2,pclmul")))

/* A lane's first word moves `distance + 64` bits, its second `distance`; each less 33. */
#define LOGSTORE_CRC32C_X2079 0xdcb17aa4u /* distance 2048, four registers; the second is X2015 */
#define LOGSTORE_CRC32C_X543 0x740eef02u  /* distance 512, one register */
#define LOGSTORE_CRC32C_X479 0x9e4addf8u
#define LOGSTORE_CRC32C_X415 0x1c291d04u  /* distances 384, 256 and 128: the lanes of a register */
#define LOGSTORE_CRC32C_X351 0xddc0152bu
#define LOGSTORE_CRC32C_X287 0x3da6d0cbu
#define LOGSTORE_CRC32C_X223 0xba4fc28eu
#define LOGSTORE_CRC32C_X159 0xf20c0dfeu
#define LOGSTORE_CRC32C_X95 0x493c7d27u

/* Up to this size one SSE4.2 stream is as fast, and does not power up the wide unit. */
#define LOGSTORE_CRC32C_FOLD_BYTES 256

LOGSTORE_CRC32C_AVX512_TARGET
static inline __m512i logstore_crc32c_fold(__m512i sum, __m512i constants, __m512i next)
{
    return _mm512_ternarylogic_epi64(
        _mm512_clmulepi64_epi128(sum, constants, 0x00),
        _mm512_clmulepi64_epi128(sum, constants, 0x11), next, 0x96 /* a ^ b ^ c */);
}

LOGSTORE_CRC32C_AVX512_TARGET
static inline uint32_t logstore_crc32c_by_vpclmulqdq(uint32_t crc, const uint8_t *p, size_t size)
{
    crc = ~crc;
    if (size <= LOGSTORE_CRC32C_FOLD_BYTES)
        return ~logstore_crc32c_one_stream(crc, p, size);

    const __m512i by_four = _mm512_set4_epi64(
        LOGSTORE_CRC32C_X2015, LOGSTORE_CRC32C_X2079, LOGSTORE_CRC32C_X2015, LOGSTORE_CRC32C_X2079);
    const __m512i by_one = _mm512_set4_epi64(
        LOGSTORE_CRC32C_X479, LOGSTORE_CRC32C_X543, LOGSTORE_CRC32C_X479, LOGSTORE_CRC32C_X543);
    const __m512i by_lane = _mm512_set_epi64(
        0, 0, LOGSTORE_CRC32C_X95, LOGSTORE_CRC32C_X159, LOGSTORE_CRC32C_X223,
        LOGSTORE_CRC32C_X287, LOGSTORE_CRC32C_X351, LOGSTORE_CRC32C_X415);

    __m512i a = _mm512_xor_si512(
        _mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    __m512i b = _mm512_loadu_si512(p + 64);
    __m512i c = _mm512_loadu_si512(p + 128);
    __m512i d = _mm512_loadu_si512(p + 192);
    for (p += 256, size -= 256; size >= 256; p += 256, size -= 256) {
        a = logstore_crc32c_fold(a, by_four, _mm512_loadu_si512(p));
        b = logstore_crc32c_fold(b, by_four, _mm512_loadu_si512(p + 64));
        c = logstore_crc32c_fold(c, by_four, _mm512_loadu_si512(p + 128));
        d = logstore_crc32c_fold(d, by_four, _mm512_loadu_si512(p + 192));
    }
    b = logstore_crc32c_fold(a, by_one, b);
    c = logstore_crc32c_fold(b, by_one, c);
    d = logstore_crc32c_fold(c, by_one, d);
    for (; size >= 64; p += 64, size -= 64)
        d = logstore_crc32c_fold(d, by_one, _mm512_loadu_si512(p));

    /* The last lane stays where it is; the other three move onto it. */
    d = logstore_crc32c_fold(d, by_lane, _mm512_maskz_mov_epi64(0xc0, d));
    __m128i lane = _mm_xor_si128(
        _mm_xor_si128(_mm512_castsi512_si128(d), _mm512_extracti32x4_epi32(d, 1)),
        _mm_xor_si128(_mm512_extracti32x4_epi32(d, 2), _mm512_extracti32x4_epi32(d, 3)));
    uint64_t state = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane));
    state = _mm_crc32_u64(state, (uint64_t)_mm_extract_epi64(lane, 1));
    return ~logstore_crc32c_one_stream((uint32_t)state, p, size);
}

#endif /* __x86_64__ */

#if defined(LOGSTORE_CRC32C_ARM)

static inline uint32_t logstore_crc32c_by_arm(uint32_t crc, const uint8_t *p, size_t size)
{
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8)
        crc = __crc32cd(
            crc, logstore_crc32c_load_le32(p) | (uint64_t)logstore_crc32c_load_le32(p + 4) << 32);
    for (; size > 0; size--, p++)
        crc = __crc32cb(crc, *p);
    return ~crc;
}

#endif

/* --- choosing ------------------------------------------------------------------------------ */

static uint32_t logstore_crc32c_resolve(uint32_t crc, const uint8_t *data, size_t size);

static logstore_crc32c_fn logstore_crc32c_chosen = logstore_crc32c_resolve;
static pthread_once_t logstore_crc32c_once = PTHREAD_ONCE_INIT;

/* Return the function of one way, or NULL if this machine lacks it; the tables need init first. */
static inline logstore_crc32c_fn logstore_crc32c_function(int way)
{
    switch (way) {
#if defined(__x86_64__)
    case LOGSTORE_CRC32C_VPCLMULQDQ: /* the operating system must save its registers too */
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
                && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("vpclmulqdq")
                && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2")
            ? logstore_crc32c_by_vpclmulqdq : NULL;
    case LOGSTORE_CRC32C_SSE42:
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")
            ? logstore_crc32c_by_sse42 : NULL;
#endif
#if defined(LOGSTORE_CRC32C_ARM)
    case LOGSTORE_CRC32C_ARM_CRC:
        return logstore_crc32c_by_arm;
#endif
    case LOGSTORE_CRC32C_TABLE:
        return logstore_crc32c_by_table;
    default:
        return NULL;
    }
}

static inline void logstore_crc32c_choose(void)
{
    logstore_crc32c_fn chosen = NULL;
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    logstore_crc32c_fill_tables();
    for (int way = 0; chosen == NULL && way < LOGSTORE_CRC32C_WAYS; way++)
        chosen = logstore_crc32c_function(way);
    /* Stored with release order: a thread that reads the pointer then reads filled tables. */
    __atomic_store_n(&logstore_crc32c_chosen, chosen, __ATOMIC_RELEASE);
}

/* A module calls this once at import; without it the first sum of any thread pays for it. */
static inline void logstore_crc32c_init(void)
{
    pthread_once(&logstore_crc32c_once, logstore_crc32c_choose);
}

static uint32_t logstore_crc32c_resolve(uint32_t crc, const uint8_t *data, size_t size)
{
    logstore_crc32c_init();
    return __atomic_load_n(&logstore_crc32c_chosen, __ATOMIC_ACQUIRE)(crc, data, size);
}

/* CRC-32C of `size` bytes that follow bytes whose CRC-32C is `crc` (0 for none). */
static inline uint32_t logstore_crc32c(uint32_t crc, const uint8_t *data, size_t size)
{
    return __atomic_load_n(&logstore_crc32c_chosen, __ATOMIC_ACQUIRE)(crc, data, size);
}

#endif

# cython: language_level=3
"""Values of JSON tokens: texts, bytes in base64, numbers, dates and times.

Leaves only. A token comes from `scan_json`, so its bytes follow the grammar; whether they fit the wanted
type is checked here. The caller has room for as many bytes as the token has.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from logstore.columns._json cimport (
    JSON_BASE64,
    JSON_OK,
    JSON_RANGE,
    JSON_SURROGATE,
    JSON_TIME,
    T_STRING,
    Token,
    is_digit,
    logstore_plain_text,
    next_character,
)

cdef extern from *:
    """
    #include <float.h>
    #include <stdint.h>
    #include <string.h>

    /* The double nearest to digits * 10**exponent where that is sure without long numbers; else 0. */
    static inline int logstore_decimal(uint64_t digits, int64_t exponent, int negative, double *out) {
        double found;
        if (digits == 0) {
            *out = negative ? -0.0 : 0.0;
            return 1;
        }
    #if LDBL_MANT_DIG == 64
        /* Digits and power are exact in 64 bits, so the quotient or product is rounded once. Rounding it
           again to 53 bits goes wrong only where the first rounding ended right in the middle. */
        static const long double powers[28] = {
            1e0L, 1e1L, 1e2L, 1e3L, 1e4L, 1e5L, 1e6L, 1e7L, 1e8L, 1e9L, 1e10L, 1e11L, 1e12L, 1e13L,
            1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
        long double wide;
        uint64_t mantissa;
        if (exponent < -27 || exponent > 27)
            return 0;
        wide = exponent < 0 ? (long double)digits / powers[-exponent] : (long double)digits * powers[exponent];
        memcpy(&mantissa, &wide, 8);
        if ((mantissa & 0x7FF) == 0x400)
            return 0;
        found = (double)wide;
    #else
        static const double powers[23] = {
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
            1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
        if (digits > ((uint64_t)1 << 53) || exponent < -22 || exponent > 22)
            return 0;
        found = exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
    #endif
        *out = negative ? -found : found;
        return 1;
    }
    """
    int logstore_decimal(uint64_t digits, int64_t exponent, int negative, double *out) noexcept nogil


# --- texts ------------------------------------------------------------------------------------

cdef inline int copy_text(const Token *token, uint8_t *out, int64_t *size) noexcept nogil:
    """Copy a string without its escapes, into room for as many bytes as the token has."""
    cdef const uint8_t *p = token.start
    cdef uint8_t *place = out
    cdef int64_t plain
    cdef int count
    if token.kind == T_STRING:
        size[0] = token.end - p
        memcpy(out, p, <size_t>size[0])
        return JSON_OK
    while p < token.end:
        plain = logstore_plain_text(p, token.end - p)
        memcpy(place, p, <size_t>plain)
        place += plain
        p += plain
        if p < token.end:
            # An escape takes more bytes than its character.
            count = next_character(&p, token.end, place)
            if count == 0:
                return JSON_SURROGATE
            place += count
    size[0] = place - out
    return JSON_OK


cdef inline int base64_digit(uint8_t byte) noexcept nogil:
    if c'A' <= byte <= c'Z':
        return byte - c'A'
    if c'a' <= byte <= c'z':
        return byte - c'a' + 26
    if c'0' <= byte <= c'9':
        return byte - c'0' + 52
    if byte == c'+':
        return 62
    if byte == c'/':
        return 63
    return -1


cdef inline int undo_base64(uint8_t *data, int64_t *size) noexcept nogil:
    """Decode base64 (RFC 4648, section 4, padded) in place."""
    cdef int64_t place = 0, done = 0, count = size[0]
    cdef int i, digit, padding = 0
    cdef uint32_t word
    if count & 3:
        return JSON_BASE64
    if count and data[count - 1] == c'=':
        padding = 2 if data[count - 2] == c'=' else 1
    while place < count:
        word = 0
        for i in range(4):
            digit = base64_digit(data[place + i])
            if digit < 0:
                if place + i < count - padding:
                    return JSON_BASE64
                digit = 0
            word = word << 6 | <uint32_t>digit
        data[done] = <uint8_t>(word >> 16)
        data[done + 1] = <uint8_t>(word >> 8)
        data[done + 2] = <uint8_t>word
        done += 3
        place += 4
    size[0] = done - padding
    return JSON_OK


# --- numbers ----------------------------------------------------------------------------------

cdef inline int to_int64(const Token *token, int64_t *out) noexcept nogil:
    """Convert a whole number that is written without fraction or exponent."""
    cdef const uint8_t *p = token.start
    cdef bint negative = p[0] == c'-'
    cdef uint64_t value = 0, most = <uint64_t>INT64_MAX + negative
    cdef uint8_t digit
    p += negative
    while p < token.end:
        digit = p[0] - c'0'
        if value > (most - digit) // 10:
            return JSON_RANGE
        value = value * 10 + digit
        p += 1
    out[0] = <int64_t>(0 - value) if negative else <int64_t>value
    return JSON_OK


cdef inline bint to_double(const Token *token, double *out) noexcept nogil:
    """Convert a number; return False if that takes long arithmetic."""
    cdef const uint8_t *p = token.start
    cdef bint negative = p[0] == c'-', written_negative
    cdef uint64_t digits = 0
    cdef int64_t exponent = 0, written = 0
    cdef int count = 0
    p += negative
    while p < token.end and p[0] != c'.' and (p[0] | 0x20) != c'e':
        if count == 19:
            return False
        digits = digits * 10 + (p[0] - c'0')
        count += digits != 0
        p += 1
    if p < token.end and p[0] == c'.':
        p += 1
        while p < token.end and (p[0] | 0x20) != c'e':
            if count == 19:
                return False
            digits = digits * 10 + (p[0] - c'0')
            count += digits != 0
            exponent -= 1
            p += 1
    if p < token.end:
        p += 1
        written_negative = p[0] == c'-'
        if p[0] == c'-' or p[0] == c'+':
            p += 1
        while p < token.end:
            if written > 100_000:
                return False
            written = written * 10 + (p[0] - c'0')
            p += 1
        exponent += -written if written_negative else written
    return logstore_decimal(digits, exponent, negative, out) != 0


# --- times ------------------------------------------------------------------------------------

cdef inline int read_digits(const uint8_t *p, int count) noexcept nogil:
    """Return a number of that many digits, or -1."""
    cdef int i, value = 0
    for i in range(count):
        if not c'0' <= p[i] <= c'9':
            return -1
        value = value * 10 + p[i] - c'0'
    return value


cdef inline int days_in_month(int year, int month) noexcept nogil:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


cdef inline int to_days(const uint8_t *p, const uint8_t *end, int32_t *out) noexcept nogil:
    """Convert a date as in RFC 3339 to days since 1970-01-01."""
    cdef int year, month, day, era, of_era
    if end - p < 10 or p[4] != c'-' or p[7] != c'-':
        return JSON_TIME
    year = read_digits(p, 4)
    month = read_digits(p + 5, 2)
    day = read_digits(p + 8, 2)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        return JSON_TIME
    # Years that begin with March, in eras of 400: the leap day is then the last day of a year.
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    day += (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 - 1
    out[0] = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + day - 719468
    return JSON_OK


cdef inline int to_microseconds(const uint8_t *p, const uint8_t *end, int64_t *out) noexcept nogil:
    """Convert a time as in RFC 3339, with its offset from UTC, to microseconds since 1970-01-01 UTC."""
    cdef int32_t days
    cdef int hour, minute, second, offset = 0, places = 0
    cdef int64_t fraction = 0
    if to_days(p, end, &days) != JSON_OK or end - p < 20 or p[13] != c':' or p[16] != c':':
        return JSON_TIME
    if p[10] != c'T' and p[10] != c't' and p[10] != c' ':
        return JSON_TIME
    hour = read_digits(p + 11, 2)
    minute = read_digits(p + 14, 2)
    second = read_digits(p + 17, 2)
    if not 0 <= hour < 24 or not 0 <= minute < 60 or not 0 <= second < 60:
        return JSON_TIME
    p += 19
    if p[0] == c'.':
        p += 1
        if not is_digit(p, end):
            return JSON_TIME
        while is_digit(p, end):
            if places < 6:
                fraction = fraction * 10 + (p[0] - c'0')
                places += 1
            p += 1
        while places < 6:
            fraction *= 10
            places += 1
    if end - p == 1 and p[0] | 0x20 == c'z':
        offset = 0
    elif end - p == 6 and (p[0] == c'+' or p[0] == c'-') and p[3] == c':':
        if not 0 <= read_digits(p + 1, 2) < 24 or not 0 <= read_digits(p + 4, 2) < 60:
            return JSON_TIME
        offset = read_digits(p + 1, 2) * 60 + read_digits(p + 4, 2)
        if p[0] == c'-':
            offset = -offset
    else:
        return JSON_TIME
    out[0] = (((<int64_t>days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1_000_000 + fraction
    return JSON_OK

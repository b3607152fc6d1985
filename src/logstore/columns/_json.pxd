# cython: language_level=3
"""JSON as in RFC 8259: one text, scanned once for the values of wanted keys.

Leaves only. Every text is checked to its end, unwanted parts too: UTF-8, grammar, and a depth of at most
`MOST_DEPTH`. No value is made during the scan. A `Token` gives the position and kind of a wanted value;
`_json_values` makes numbers, texts and times of tokens. Of a key that comes twice in an object the last one
counts.

Wanted keys form a tree of `Node`s. Node 0 is the text's own object, and the children of a node are adjacent. The
tokens of all nodes below one form a range, so that a repeated key can clear them.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from logstore.batch._batch cimport is_utf8

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* How many bytes precede the first quote, backslash or control character; size if there is none. */
    static inline int64_t logstore_plain_text(const uint8_t *p, int64_t size) {
        int64_t done = 0;
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
        while (size - done >= 8) {
            uint64_t word, quote, escape, found;
            memcpy(&word, p + done, 8);
            quote = word ^ (ones * '"');
            escape = word ^ (ones * '\\\\');
            /* A borrow can only mark bytes above one that is truly marked, and the lowest is taken. */
            found = ((quote - ones) & ~quote) | ((escape - ones) & ~escape) | ((word - ones * 0x20) & ~word);
            found &= tops;
            if (found)
                return done + (__builtin_ctzll(found) >> 3);
            done += 8;
        }
    #endif
        while (done < size && p[done] != '"' && p[done] != '\\\\' && p[done] >= 0x20)
            done++;
        return done;
    }

    /* How many bytes at the start are ASCII, or a few less. */
    static inline int64_t logstore_ascii(const uint8_t *p, int64_t size) {
        int64_t done = 0;
        while (size - done >= 8) {
            uint64_t word;
            memcpy(&word, p + done, 8);
            if (word & 0x8080808080808080u)
                break;
            done += 8;
        }
        return done;
    }
    """
    int64_t logstore_plain_text(const uint8_t *p, int64_t size) noexcept nogil
    int64_t logstore_ascii(const uint8_t *p, int64_t size) noexcept nogil

cdef enum:
    MOST_DEPTH = 256

# Results for a text or a token.
cdef enum:
    JSON_OK = 0
    JSON_SHORT = -1               # the text ends early
    JSON_UNEXPECTED = -2          # a byte that is invalid there
    JSON_DEEP = -3
    JSON_NO_TEXT = -4             # not UTF-8
    JSON_BEHIND = -5              # bytes after the value
    JSON_NO_OBJECT = -6
    JSON_WRONG_TYPE = -7
    JSON_RANGE = -8               # a number that the type cannot hold
    JSON_SURROGATE = -9           # half a character
    JSON_BASE64 = -10
    JSON_TIME = -11

cdef enum:
    T_MISSING
    T_NULL
    T_FALSE
    T_TRUE
    T_INTEGER
    T_NUMBER                      # with a fraction or an exponent
    T_STRING
    T_ESCAPED                     # a string in which there are escapes
    T_NESTED

cdef struct Token:
    int kind
    const uint8_t *start          # of a string: after its quote
    const uint8_t *end            # of a string: its last quote

cdef struct Node:
    const uint8_t *key
    int32_t key_size
    int32_t token                 # -1: only nodes below it are wanted
    int32_t first_child
    int32_t child_count
    int32_t below                 # tokens [below, below_end) belong to nodes under this one
    int32_t below_end


# --- the grammar ------------------------------------------------------------------------------

cdef inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end) noexcept nogil:
    while p < end and (p[0] == c' ' or p[0] == c'\n' or p[0] == c'\r' or p[0] == c'\t'):
        p += 1
    return p


cdef inline int hex_digit(uint8_t byte) noexcept nogil:
    if c'0' <= byte <= c'9':
        return byte - c'0'
    byte |= 0x20
    if c'a' <= byte <= c'f':
        return byte - c'a' + 10
    return -1


cdef inline int skip_string(const uint8_t **cursor, const uint8_t *end, bint *escaped) noexcept nogil:
    """Move from the first byte of a string to its closing quote; on an error to the byte at fault."""
    cdef const uint8_t *p = cursor[0]
    cdef int i
    escaped[0] = False
    while True:
        p += logstore_plain_text(p, end - p)
        cursor[0] = p
        if p == end:
            return JSON_SHORT
        if p[0] == c'"':
            return JSON_OK
        if p[0] != c'\\':
            return JSON_UNEXPECTED
        escaped[0] = True
        if end - p < 2:
            return JSON_SHORT
        if p[1] == c'u':
            if end - p < 6:
                return JSON_SHORT
            for i in range(2, 6):
                if hex_digit(p[i]) < 0:
                    return JSON_UNEXPECTED
            p += 6
        elif (p[1] == c'"' or p[1] == c'\\' or p[1] == c'/' or p[1] == c'b' or p[1] == c'f' or p[1] == c'n'
                or p[1] == c'r' or p[1] == c't'):
            p += 2
        else:
            return JSON_UNEXPECTED


cdef inline bint is_digit(const uint8_t *p, const uint8_t *end) noexcept nogil:
    return p < end and c'0' <= p[0] <= c'9'


cdef inline int skip_number(const uint8_t **cursor, const uint8_t *end, int *kind) noexcept nogil:
    """Move past a number; on an error to the byte at fault."""
    cdef const uint8_t *p = cursor[0]
    kind[0] = T_INTEGER
    if p[0] == c'-':
        p += 1
    if is_digit(p, end) and p[0] == c'0':
        p += 1
    elif is_digit(p, end):
        while is_digit(p, end):
            p += 1
    else:
        cursor[0] = p
        return JSON_UNEXPECTED if p < end else JSON_SHORT
    if p < end and p[0] == c'.':
        kind[0] = T_NUMBER
        p += 1
        if not is_digit(p, end):
            cursor[0] = p
            return JSON_UNEXPECTED if p < end else JSON_SHORT
        while is_digit(p, end):
            p += 1
    if p < end and (p[0] | 0x20) == c'e':
        kind[0] = T_NUMBER
        p += 1
        if p < end and (p[0] == c'+' or p[0] == c'-'):
            p += 1
        if not is_digit(p, end):
            cursor[0] = p
            return JSON_UNEXPECTED if p < end else JSON_SHORT
        while is_digit(p, end):
            p += 1
    cursor[0] = p
    return JSON_OK


cdef inline int skip_word(const uint8_t **cursor, const uint8_t *end, const char *word, int size) noexcept nogil:
    if end - cursor[0] < size:
        return JSON_SHORT if memcmp(cursor[0], word, <size_t>(end - cursor[0])) == 0 else JSON_UNEXPECTED
    if memcmp(cursor[0], word, <size_t>size):
        return JSON_UNEXPECTED
    cursor[0] += size
    return JSON_OK


cdef inline int32_t find_child(const Node *nodes, int32_t parent, int32_t *expected, const uint8_t *key,
                               int32_t size, bint escaped) noexcept nogil:
    """Return the child with that key, or -1; the search begins after the one found before."""
    cdef const Node *node = &nodes[parent]
    cdef const Node *child
    cdef int32_t _, place = expected[0]
    for _ in range(node.child_count):
        if place >= node.child_count:
            place = 0
        child = &nodes[node.first_child + place]
        if escaped:
            if is_same_text(key, key + size, child.key, child.key_size):
                expected[0] = place + 1
                return node.first_child + place
        elif child.key_size == size and memcmp(child.key, key, <size_t>size) == 0:
            expected[0] = place + 1
            return node.first_child + place
        place += 1
    return -1


cdef inline int scan_json(const Node *nodes, Token *tokens, int32_t token_count, const uint8_t *p,
                          const uint8_t *end, const uint8_t **at) noexcept nogil:
    """Scan one text into tokens. ``at`` is the position of an error.

    At the top of the loop the bytes before p are a beginning of a text in which ``depth`` arrays and
    objects are open, and p is before a value; of ``node`` if it is wanted, else of -1.
    """
    cdef int32_t parents[MOST_DEPTH]          # the node of each open object; -1: no column reads its fields
    cdef int32_t expected[MOST_DEPTH]
    cdef const uint8_t *starts[MOST_DEPTH]
    cdef const uint8_t *start
    cdef int32_t node = 0, i
    cdef int depth = 0, kind, status
    cdef bint escaped, is_key
    at[0] = p
    for i in range(token_count):
        tokens[i].kind = T_MISSING
    p += logstore_ascii(p, end - p)
    if not is_utf8(p, <int32_t>(end - p)):
        return JSON_NO_TEXT
    p = skip_space(at[0], end)
    if p < end and p[0] != c'{':
        # Scanned all the same: the error tells invalid JSON from JSON of another type.
        node = -1
    while True:
        p = skip_space(p, end)
        at[0] = p
        if p == end:
            return JSON_SHORT
        start = p
        is_key = False
        if node >= 0:
            for i in range(nodes[node].below, nodes[node].below_end):
                tokens[i].kind = T_MISSING
        if p[0] == c'{' or p[0] == c'[':
            if depth == MOST_DEPTH:
                return JSON_DEEP
            parents[depth] = node
            expected[depth] = 0
            starts[depth] = p
            depth += 1
            p = skip_space(p + 1, end)
            if p < end and p[0] == start[0] + 2:          # { and }, [ and ]
                kind = T_NESTED                           # closed below
            else:
                is_key = start[0] == c'{'
                kind = T_MISSING
        elif p[0] == c'"':
            p += 1
            start = p
            status = skip_string(&p, end, &escaped)
            kind = T_ESCAPED if escaped else T_STRING
            if status != JSON_OK:
                at[0] = p
                return status
        elif p[0] == c'-' or c'0' <= p[0] <= c'9':
            status = skip_number(&p, end, &kind)
            if status != JSON_OK:
                at[0] = p
                return status
        else:
            if p[0] == c't':
                status = skip_word(&p, end, "true", 4)
                kind = T_TRUE
            elif p[0] == c'f':
                status = skip_word(&p, end, "false", 5)
                kind = T_FALSE
            else:
                status = skip_word(&p, end, "null", 4)
                kind = T_NULL
            if status != JSON_OK:
                return status
        if kind != T_MISSING and kind != T_NESTED:
            # Inside an array ``node`` is -1 too, so a wanted value has a key of its own.
            if node >= 0 and nodes[node].token >= 0:
                tokens[nodes[node].token].kind = kind
                tokens[nodes[node].token].start = start
                tokens[nodes[node].token].end = p
            if kind >= T_STRING:
                p += 1
        # After a value, or after the bracket that opens one: close what ends here.
        while kind != T_MISSING:
            if depth == 0:
                p = skip_space(p, end)
                at[0] = p
                if p < end:
                    return JSON_BEHIND
                at[0] = start
                return JSON_OK if node >= 0 else JSON_NO_OBJECT
            p = skip_space(p, end)
            at[0] = p
            if p == end:
                return JSON_SHORT
            if p[0] == c',':
                p += 1
                is_key = starts[depth - 1][0] == c'{'
                break
            if p[0] != starts[depth - 1][0] + 2:
                return JSON_UNEXPECTED
            p += 1
            depth -= 1
            node = parents[depth]
            start = starts[depth]
            if node >= 0 and nodes[node].token >= 0:
                tokens[nodes[node].token].kind = T_NESTED
                tokens[nodes[node].token].start = start
                tokens[nodes[node].token].end = p
        node = -1
        if is_key:
            p = skip_space(p, end)
            at[0] = p
            if p == end:
                return JSON_SHORT
            if p[0] != c'"':
                return JSON_UNEXPECTED
            p += 1
            start = p
            status = skip_string(&p, end, &escaped)
            at[0] = p
            if status != JSON_OK:
                return status
            if parents[depth - 1] >= 0:
                node = find_child(nodes, parents[depth - 1], &expected[depth - 1], start, <int32_t>(p - start),
                                  escaped)
            p = skip_space(p + 1, end)
            at[0] = p
            if p == end:
                return JSON_SHORT
            if p[0] != c':':
                return JSON_UNEXPECTED
            p += 1


# --- texts ------------------------------------------------------------------------------------

cdef inline uint32_t read_hex(const uint8_t *p) noexcept nogil:
    return <uint32_t>(hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 | hex_digit(p[2]) << 4 | hex_digit(p[3]))


cdef inline int next_character(const uint8_t **cursor, const uint8_t *end, uint8_t *out) noexcept nogil:
    """Decode one byte, or one escape to its up to four bytes; return 0 for half a surrogate pair. Steps over it."""
    cdef const uint8_t *p = cursor[0]
    cdef uint32_t code, low
    if p[0] != c'\\':
        out[0] = p[0]
        cursor[0] = p + 1
        return 1
    cursor[0] = p + 2
    if p[1] != c'u':
        if p[1] == c'b':
            out[0] = 8
        elif p[1] == c'f':
            out[0] = 12
        elif p[1] == c'n':
            out[0] = 10
        elif p[1] == c'r':
            out[0] = 13
        elif p[1] == c't':
            out[0] = 9
        else:
            out[0] = p[1]
        return 1
    cursor[0] = p + 6
    code = read_hex(p + 2)
    if code < 0x80:
        out[0] = <uint8_t>code
        return 1
    if code < 0x800:
        out[0] = <uint8_t>(0xC0 | code >> 6)
        out[1] = <uint8_t>(0x80 | (code & 0x3F))
        return 2
    if 0xD800 <= code < 0xE000:
        if code >= 0xDC00 or end - p < 12 or p[6] != c'\\' or p[7] != c'u':
            return 0
        low = read_hex(p + 8)
        if not 0xDC00 <= low < 0xE000:
            return 0
        cursor[0] = p + 12
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        out[0] = <uint8_t>(0xF0 | code >> 18)
        out[1] = <uint8_t>(0x80 | (code >> 12 & 0x3F))
        out[2] = <uint8_t>(0x80 | (code >> 6 & 0x3F))
        out[3] = <uint8_t>(0x80 | (code & 0x3F))
        return 4
    out[0] = <uint8_t>(0xE0 | code >> 12)
    out[1] = <uint8_t>(0x80 | (code >> 6 & 0x3F))
    out[2] = <uint8_t>(0x80 | (code & 0x3F))
    return 3


cdef inline bint is_same_text(const uint8_t *p, const uint8_t *end, const uint8_t *key,
                              int32_t size) noexcept nogil:
    """Tell whether a string with escapes equals a key."""
    cdef uint8_t character[4]
    cdef int count
    while p < end:
        count = next_character(&p, end, character)
        if count == 0 or count > size or memcmp(character, key, <size_t>count):
            return False
        key += count
        size -= count
    return size == 0

# cython: language_level=3
"""The Arrow C data and C stream interfaces: their three structs and the capsules that carry them.

As in "The Arrow C data interface", "The Arrow C stream interface" and "The Arrow PyCapsule Interface" of the Arrow
specification. Its guards prevent a second definition. A struct whose `release` is NULL holds nothing. A consumer
that takes a struct out of a capsule copies it and sets `release` in the capsule to NULL. So each one is released
exactly once.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t
from libc.stdlib cimport free

cdef extern from *:
    """
    #include <stdint.h>
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #define ARROW_FLAG_DICTIONARY_ORDERED 1
    #define ARROW_FLAG_NULLABLE 2
    #define ARROW_FLAG_MAP_KEYS_SORTED 4
    struct ArrowSchema {
        const char *format;
        const char *name;
        const char *metadata;
        int64_t flags;
        int64_t n_children;
        struct ArrowSchema **children;
        struct ArrowSchema *dictionary;
        void (*release)(struct ArrowSchema *);
        void *private_data;
    };
    struct ArrowArray {
        int64_t length;
        int64_t null_count;
        int64_t offset;
        int64_t n_buffers;
        int64_t n_children;
        const void **buffers;
        struct ArrowArray **children;
        struct ArrowArray *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
        int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
        int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
        const char *(*get_last_error)(struct ArrowArrayStream *);
        void (*release)(struct ArrowArrayStream *);
        void *private_data;
    };
    #endif
    """
    enum:
        ARROW_FLAG_NULLABLE

    struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept nogil
        void *private_data

    struct ArrowArray:
        int64_t length
        int64_t null_count                # -1: not counted
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *) noexcept nogil
        void *private_data

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept nogil
        void *private_data


# Foreign callbacks are called without the GIL: they may wait for a thread that needs it.

cdef inline void drop_schema(ArrowSchema *schema) noexcept nogil:
    """Release a schema that was not taken over."""
    if schema.release != NULL:
        schema.release(schema)


cdef inline void drop_array(ArrowArray *array) noexcept nogil:
    """Release an array that was not taken over."""
    if array.release != NULL:
        array.release(array)


cdef inline void drop_stream(ArrowArrayStream *stream) noexcept nogil:
    """Release a stream that was not taken over."""
    if stream.release != NULL:
        stream.release(stream)


cdef inline void free_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    with nogil:
        drop_schema(schema)
    free(schema)


cdef inline void free_array_capsule(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    with nogil:
        drop_array(array)
    free(array)


cdef inline void free_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    with nogil:
        drop_stream(stream)
    free(stream)

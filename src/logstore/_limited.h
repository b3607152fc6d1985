/* Spellings that Python's stable ABI lacks, for the abi3 wheel; setup.py puts this file before all else.
 *
 * The sources use the quick macros of the full API, which are inlined loads there. Here each of them is
 * the function of the stable ABI that means the same. It is slower and checks its argument once more;
 * a build for one version of Python, which this file is not part of, pays nothing for it.
 */
#ifndef LOGSTORE_LIMITED_H
#define LOGSTORE_LIMITED_H

#include <Python.h>

#ifndef Py_LIMITED_API
#error "for builds against the stable ABI only: set LOGSTORE_BUILD_ABI3"
#endif

#define PyBytes_AS_STRING(object) PyBytes_AsString((PyObject *)(object))
#define PyBytes_GET_SIZE(object) PyBytes_Size((PyObject *)(object))
#define PyList_GET_ITEM(object, index) PyList_GetItem((PyObject *)(object), (index))
#define PyList_GET_SIZE(object) PyList_Size((PyObject *)(object))
/* Takes over the reference, as the macro does; of a list that is being filled nothing is let go. */
#define PyList_SET_ITEM(object, index, item) ((void)PyList_SetItem((PyObject *)(object), (index), (PyObject *)(item)))
#define PyTuple_GET_ITEM(object, index) PyTuple_GetItem((PyObject *)(object), (index))
/* As for a list: of a tuple that is being filled. */
#define PyTuple_SET_ITEM(object, index, item) ((void)PyTuple_SetItem((PyObject *)(object), (index), (PyObject *)(item)))
#define PyTuple_GET_SIZE(object) PyTuple_Size((PyObject *)(object))

/* With a copy: the stable ABI shortens nothing in place. */
#define _PyBytes_Resize logstore_resize

static inline int logstore_resize(PyObject **data, Py_ssize_t size) {
    PyObject *shorter = PyBytes_FromStringAndSize(PyBytes_AsString(*data), size);
    Py_DECREF(*data);
    *data = shorter;
    return shorter == NULL ? -1 : 0;
}

/* A `__del__` in a cdef class. Cython leaves it out below the stable ABI of 3.15, because what calls it for
 * an object whose last reference has gone is in no stable ABI. Without it a file that nobody closed would
 * keep its descriptor until the process ends. No `__del__` of ours gives its object a new reference, so
 * the object never lives on, and holding it for the length of the call is all there is to do. */
#define CYTHON_USE_TP_FINALIZE 1
#define PyObject_CallFinalizerFromDealloc logstore_finalize

static inline int logstore_finalize(PyObject *object) {
    destructor finalizer = (destructor)PyType_GetSlot(Py_TYPE(object), Py_tp_finalize);
    Py_SET_REFCNT(object, Py_REFCNT(object) + 1);
    finalizer(object);
    Py_SET_REFCNT(object, Py_REFCNT(object) - 1);
    return 0;
}

#endif

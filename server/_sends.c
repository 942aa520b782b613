/* Owns the one loop that sends the same bytes to many sockets, with the interpreter's lock released.
 *
 * It is optional: where it was not built, server/outlet.py writes to each transport instead. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL /* macOS; the interpreter ignores SIGPIPE anyway */
#define MSG_NOSIGNAL 0
#endif

typedef struct {
    int descriptor;
    Py_ssize_t taken;
} Receiver;

static Py_ssize_t send_some(int descriptor, const char *bytes, Py_ssize_t size)
{
    ssize_t taken;
    do {
        taken = send(descriptor, bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (taken < 0 && errno == EINTR);
    return taken < 0 ? 0 : taken;
}

/* Plain integers only: code of anybody's that ran here could change the list. */
static int read_descriptors(PyObject *descriptors, Receiver *receivers, Py_ssize_t count)
{
    for (Py_ssize_t place = 0; place < count; place++) {
        PyObject *item = PyList_GetItem(descriptors, place);
        if (!PyLong_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a descriptor must be an int");
            return -1;
        }
        long descriptor = PyLong_AsLong(item);
        if (descriptor < 0 || descriptor > INT_MAX) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a descriptor must be from 0 to the largest int of C");
            return -1;
        }
        receivers[place].descriptor = (int)descriptor;
    }
    return 0;
}

static PyObject *those_behind(const Receiver *receivers, Py_ssize_t count, Py_ssize_t size)
{
    PyObject *behind = PyList_New(0);
    for (Py_ssize_t place = 0; behind != NULL && place < count; place++) {
        if (receivers[place].taken == size)
            continue;
        PyObject *pair = Py_BuildValue("(nn)", place, receivers[place].taken);
        if (pair == NULL || PyList_Append(behind, pair) < 0)
            Py_CLEAR(behind);
        Py_XDECREF(pair);
    }
    return behind;
}

static PyObject *send_to_each(PyObject *module, PyObject *arguments)
{
    PyObject *descriptors, *message, *behind = NULL;
    char *bytes;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "O!S:send_to_each", &PyList_Type, &descriptors, &message)
        || PyBytes_AsStringAndSize(message, &bytes, &size) < 0)
        return NULL;
    Py_ssize_t count = PyList_Size(descriptors);
    Receiver *receivers = PyMem_Calloc((size_t)count + 1, sizeof *receivers);
    if (receivers == NULL)
        return PyErr_NoMemory();
    if (read_descriptors(descriptors, receivers, count) == 0) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t place = 0; place < count; place++)
            receivers[place].taken = send_some(receivers[place].descriptor, bytes, size);
        Py_END_ALLOW_THREADS
        behind = those_behind(receivers, count, size);
    }
    PyMem_Free(receivers);
    return behind;
}

static PyMethodDef methods[] = {
    {"send_to_each", send_to_each, METH_VARARGS,
     PyDoc_STR("send_to_each(descriptors, message, /)\n--\n\n"
               "Send message to every socket of the list, waiting for none.\n\n"
               "Returns (place in the list, bytes taken) of each that did not take all of it; an error of one\n"
               "socket counts as no byte taken.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_sends", PyDoc_STR("Sends the same bytes to many sockets."), 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__sends(void)
{
    return PyModuleDef_Init(&definition);
}

/* The one loop that sends the same bytes to many sockets, with the interpreter's lock released.
 *
 * It is optional: where it was not built, each viewer's transport writes instead. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL /* macOS; the interpreter ignores SIGPIPE anyway */
#define MSG_NOSIGNAL 0
#endif

static Py_ssize_t send_some(int descriptor, const char *bytes, Py_ssize_t size)
{
    ssize_t taken;
    do {
        taken = send(descriptor, bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (taken < 0 && errno == EINTR);
    return taken < 0 ? 0 : taken;
}

static int read_descriptors(PyObject *descriptors, Py_buffer *view)
{
    if (PyObject_GetBuffer(descriptors, view, PyBUF_FORMAT | PyBUF_ND) < 0)
        return -1;
    if (view->format == NULL || strcmp(view->format, "i") != 0) {
        PyErr_SetString(PyExc_TypeError, "descriptors must be an array of C ints");
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

static PyObject *those_behind(const Py_ssize_t *taken, Py_ssize_t count, Py_ssize_t size)
{
    PyObject *behind = PyList_New(0);
    for (Py_ssize_t place = 0; behind != NULL && place < count; place++) {
        if (taken[place] == size)
            continue;
        PyObject *pair = Py_BuildValue("(nn)", place, taken[place]);
        if (pair == NULL || PyList_Append(behind, pair) < 0)
            Py_CLEAR(behind);
        Py_XDECREF(pair);
    }
    return behind;
}

static PyObject *send_to_each(PyObject *module, PyObject *arguments)
{
    PyObject *descriptors, *message, *behind = NULL;
    Py_buffer view;
    char *bytes;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "OS:send_to_each", &descriptors, &message)
        || PyBytes_AsStringAndSize(message, &bytes, &size) < 0 || read_descriptors(descriptors, &view) < 0)
        return NULL;
    Py_ssize_t count = view.len / (Py_ssize_t)sizeof(int);
    Py_ssize_t *taken = PyMem_Malloc(((size_t)count + 1) * sizeof *taken);
    if (taken == NULL) {
        PyErr_NoMemory();
    } else {
        const int *descriptor = view.buf;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t place = 0; place < count; place++)
            taken[place] = send_some(descriptor[place], bytes, size);
        Py_END_ALLOW_THREADS
        behind = those_behind(taken, count, size);
    }
    PyMem_Free(taken);
    PyBuffer_Release(&view);
    return behind;
}

static PyMethodDef methods[] = {
    {"send_to_each", send_to_each, METH_VARARGS,
     PyDoc_STR("send_to_each(descriptors, message, /)\n--\n\n"
               "Send message to every socket of an array of C ints, waiting for none.\n\n"
               "Returns (place in the array, bytes taken) of each that did not take all of it; an error of one\n"
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

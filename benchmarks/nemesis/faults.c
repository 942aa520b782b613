/* Let the writes of a process fail, and move its clock, as a shared file of orders says.
 *
 * Loaded by LD_PRELOAD. Only regular files under one folder are affected; see faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct orders { volatile int32_t error, passing, failed, unused; volatile int64_t clock_s; };
static struct orders none, *orders = &none;
static char folder[PATH_MAX];

void nemesis_obey(const char *path, const char *under) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *shared = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED) return;
    snprintf(folder, sizeof folder, "%s/", under);
    orders = shared;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("NEMESIS_ORDERS"), *under = getenv("NEMESIS_FOLDER");
    if (path && under) nemesis_obey(path, under);
}

static int refused(int file) {
    char link[64], path[PATH_MAX];
    struct stat about;
    if (!orders->error || fstat(file, &about) || !S_ISREG(about.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || strncmp(path, folder, strlen(folder))) return 0;
    if (__sync_fetch_and_sub(&orders->passing, 1) > 0) return 0;
    __sync_fetch_and_add(&orders->failed, 1);
    errno = orders->error;
    return 1;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAILING(result, name, declared, given) \
    result name declared { REAL(name); return refused(file) ? -1 : real given; }

FAILING(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
FAILING(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
FAILING(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
FAILING(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
FAILING(ssize_t, pwritev, (int file, const struct iovec *parts, int count, off_t at), (file, parts, count, at))
FAILING(int, fsync, (int file), (file))
FAILING(int, fdatasync, (int file), (file))
FAILING(int, ftruncate, (int file, off_t size), (file, size))
FAILING(int, ftruncate64, (int file, off64_t size), (file, size))

int clock_gettime(clockid_t which, struct timespec *found) {
    REAL(clock_gettime);
    int result = real(which, found);
    if (!result && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) found->tv_sec += orders->clock_s;
    return result;
}

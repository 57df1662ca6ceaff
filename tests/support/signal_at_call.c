/* Loaded before the C library: a process sends itself a signal in a call on a file.
     SIGNAL_AT      the call: pread or fsync
     SIGNAL_FILE    how the name of the file ends
     SIGNAL_COUNT   in which of these calls, counted from 1
     SIGNAL_NUMBER  the number of the signal
     SIGNAL_RANK    only in this rank, as Open MPI or PMIx numbers it; in all without it */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void here(const char* call, int file) {
  static atomic_int count;
  const char *at = getenv("SIGNAL_AT"), *end = getenv("SIGNAL_FILE"), *wanted = getenv("SIGNAL_RANK");
  const char *number = getenv("SIGNAL_NUMBER"), *which = getenv("SIGNAL_COUNT");
  if (at == NULL || end == NULL || number == NULL || which == NULL || strcmp(at, call) != 0) return;
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank == NULL) rank = getenv("PMIX_RANK");
  if (wanted != NULL && (rank == NULL || strcmp(rank, wanted) != 0)) return;
  const int error = errno;
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof(path)), tail = (ssize_t)strlen(end);
  if (size > tail && memcmp(path + size - tail, end, (size_t)tail) == 0 &&
      atomic_fetch_add(&count, 1) + 1 == atoi(which))
    kill(getpid(), atoi(number));
  errno = error;
}

ssize_t pread(int file, void* into, size_t bytes, off_t offset) {
  ssize_t (*const real)(int, void*, size_t, off_t) =
      (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  here("pread", file);
  return real(file, into, bytes, offset);
}

int fsync(int file) {
  int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  here("fsync", file);
  return real(file);
}

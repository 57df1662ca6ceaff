/* Loaded before the C library: the n-th call that opens, reads, writes, flushes, renames, makes,
   cuts or removes something below a folder kills the process, fails or is interrupted. What stdio
   does within the C library is not seen.
     FAILING_BELOW  the folder, or a file
     FAILING_ONLY   only calls whose names begin so, such as "pread"; without it: all
     FAILING_AT     n, from 1; 0: none
     FAILING_HOW    "kill", or the number of an error: once for EINTR, always from then on for others
     FAILING_TIMES  of other errors: so often, and then no more
     FAILING_COUNT  a file that tells, at the end, how many such calls there were */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls;

static int is_below(const char* path) {
  const char* below = getenv("FAILING_BELOW");
  return below != NULL && path != NULL && strncmp(path, below, strlen(below)) == 0;
}

/* 0: the call goes on. */
static int error_of(const char* path, const char* name) {
  const char *only = getenv("FAILING_ONLY"), *times = getenv("FAILING_TIMES");
  if (!is_below(path) || (only != NULL && strncmp(name, only, strlen(only)) != 0)) return 0;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  const char *at = getenv("FAILING_AT"), *how = getenv("FAILING_HOW");
  const long wanted = at == NULL ? 0 : atol(at);
  if (wanted == 0 || how == NULL || number < wanted) return 0;
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  const long most = atoi(how) == EINTR ? 1 : times == NULL ? 0 : atol(times);
  return most == 0 || number < wanted + most ? atoi(how) : 0;
}

static int error_of_file(int file, const char* name) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return error_of(path, name);
}

static void* real_call(const char* name) {
  return dlsym(RTLD_NEXT, name);
}

#define FAIL_IF(code, result)    \
  do {                           \
    const int failure = (code);  \
    if (failure != 0) {          \
      errno = failure;           \
      return result;             \
    }                            \
  } while (0)

#define OPENING(name)                                                      \
  int name(const char* path, int flags, ...) {                             \
    va_list list;                                                          \
    va_start(list, flags);                                                 \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                          \
    FAIL_IF(error_of(path, #name), -1);                                    \
    return ((int (*)(const char*, int, ...))real_call(#name))(path, flags, mode); \
  }
OPENING(open)
OPENING(open64)

#define OF_PATH(name, declared, given)                                      \
  int name declared {                                                       \
    FAIL_IF(error_of(path, #name), -1);                                     \
    return ((int (*) declared)real_call(#name)) given;                      \
  }
OF_PATH(mkdir, (const char* path, mode_t mode), (path, mode))
OF_PATH(rmdir, (const char* path), (path))
OF_PATH(unlink, (const char* path), (path))
OF_PATH(remove, (const char* path), (path))
OF_PATH(rename, (const char* path, const char* to), (path, to))

#define OF_FILE(type, name, declared, given)                                \
  type name declared {                                                      \
    FAIL_IF(error_of_file(file, #name), -1);                                \
    return ((type(*) declared)real_call(#name)) given;                      \
  }
OF_FILE(ssize_t, read, (int file, void* into, size_t bytes), (file, into, bytes))
OF_FILE(ssize_t, pread, (int file, void* into, size_t bytes, off_t at), (file, into, bytes, at))
OF_FILE(ssize_t, pread64, (int file, void* into, size_t bytes, off64_t at), (file, into, bytes, at))
OF_FILE(ssize_t, write, (int file, const void* from, size_t bytes), (file, from, bytes))
OF_FILE(int, fsync, (int file), (file))
OF_FILE(int, fdatasync, (int file), (file))
OF_FILE(int, ftruncate, (int file, off_t bytes), (file, bytes))
OF_FILE(int, ftruncate64, (int file, off64_t bytes), (file, bytes))

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("FAILING_COUNT");
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", atomic_load(&calls));
  fclose(file);
}

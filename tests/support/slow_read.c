/* Loaded before the C library: the fortieth pread of a file whose name ends in .bin, and all that
   follow, take ten minutes, as on a disk that does not answer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_slow(int file) {
  static atomic_int reads;
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof(path));
  return size > 4 && memcmp(path + size - 4, ".bin", 4) == 0 && atomic_fetch_add(&reads, 1) >= 40;
}

ssize_t pread(int file, void* into, size_t bytes, off_t offset) {
  ssize_t (*const real)(int, void*, size_t, off_t) =
      (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  if (is_slow(file)) sleep(600);
  return real(file, into, bytes, offset);
}

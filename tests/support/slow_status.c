/* Loaded before the C library: it takes three seconds until the file in which a rank says how it
   ended is on the disk, as beside others who write much. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_status(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return strstr(path, "/status/rank-") != NULL;
}

int fsync(int file) {
  int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  if (is_status(file)) sleep(3);
  return real(file);
}

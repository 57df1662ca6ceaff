/* Loaded before the MPI library: one rank gets a signal at one place in its start or end.
     STOPPING_RANK    the rank, as Open MPI numbers it
     STOPPING_SIGNAL  the number of the signal
     STOPPING_AT      begin          before main
                      before_init   before MPI starts
                      after_init    when MPI has just started
                      connect       before the first call of rank 0 over TCP apart from MPI
                      hello         between this call and the first word
                      before_end    before MPI ends
                      after_end     when MPI has just ended
                      exit          after main */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int has_begun;

static void here(const char* place) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *wanted = getenv("STOPPING_RANK");
  const char *at = getenv("STOPPING_AT"), *signal = getenv("STOPPING_SIGNAL");
  if (rank == NULL || wanted == NULL || at == NULL || signal == NULL) return;
  if (strcmp(rank, wanted) != 0 || strcmp(at, place) != 0) return;
  const int error = errno;
  kill(getpid(), atoi(signal));
  errno = error;
}

__attribute__((constructor)) static void begin(void) {
  here("begin");
}
__attribute__((destructor)) static void end(void) {
  here("exit");
}

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  int (*const real)(int*, char***, int, int*) =
      (int (*)(int*, char***, int, int*))dlsym(RTLD_NEXT, "MPI_Init_thread");
  here("before_init");
  const int result = real(argc, argv, wanted, provided);
  has_begun = 1;
  here("after_init");
  return result;
}

int MPI_Finalize(void) {
  int (*const real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "MPI_Finalize");
  here("before_end");
  const int result = real();
  here("after_end");
  return result;
}

int connect(int file, const struct sockaddr* address, socklen_t size) {
  int (*const real)(int, const struct sockaddr*, socklen_t) =
      (int (*)(int, const struct sockaddr*, socklen_t))dlsym(RTLD_NEXT, "connect");
  const int is_ours = has_begun && address->sa_family == AF_INET;
  if (is_ours) here("connect");
  const int result = real(file, address, size);
  const int error = errno;
  if (is_ours) here("hello");
  errno = error;
  return result;
}

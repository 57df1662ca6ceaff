/* Loaded before the C library: the rank LATE_RANK, as PMIx numbers it, ends two seconds late, as one with much memory or a
   device does. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((destructor)) static void end(void) {
  const char *rank = getenv("PMIX_RANK"), *late = getenv("LATE_RANK");
  if (rank == NULL || late == NULL || strcmp(rank, late) != 0) return;
  for (unsigned left = 2; left > 0;) left = sleep(left);
}

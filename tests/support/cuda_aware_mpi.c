/* Loaded before the program, so that MPI says it takes memory of CUDA devices: only what it is asked, not what it does. */
int MPIX_Query_cuda_support(void) { return 1; }

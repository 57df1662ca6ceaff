// Marks functions that CUDA kernels call too. Elsewhere the mark is empty.
#pragma once

#ifdef __CUDACC__
#define FOURFOLD_CUDA __host__ __device__
#else
#define FOURFOLD_CUDA
#endif

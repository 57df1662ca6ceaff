# Libraries of matrix products beside OpenBLAS and oneDNN, which kernels use where they are found: BLIS (its OpenMP build) and MKL
# (with the names that end in _64, on GNU's OpenMP). Adds each to fourfold_kernels; says in `other_blas` what there is.
# OpenBLAS is linked before them: a BLAS's names that all three have are OpenBLAS's.
set(other_blas "")

# other_blas_library(NAME HEADERS LIBRARY...): kernels have src/kernels/cpu/<name>.cpp and FOURFOLD_<NAME>. That file alone sees the
# headers, among which are some of other libraries' names.
function(other_blas_library name headers)
  string(TOLOWER ${name} file)
  target_sources(fourfold_kernels PRIVATE src/kernels/cpu/${file}.cpp)
  set_property(SOURCE src/kernels/cpu/${file}.cpp APPEND PROPERTY COMPILE_OPTIONS -isystem ${headers})
  target_link_libraries(fourfold_kernels PRIVATE ${ARGN})
  set_property(SOURCE src/kernels/cpu/blas_libraries.cpp APPEND PROPERTY COMPILE_DEFINITIONS FOURFOLD_${name})
endfunction()

# --- BLIS
option(FOURFOLD_BLIS "Use BLIS for products where it is found" ON)
find_path(BLIS_INCLUDE_DIR blis.h PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE}/blis-openmp blis-openmp blis)
find_library(BLIS_LIBRARY blis PATH_SUFFIXES blis-openmp)
mark_as_advanced(BLIS_INCLUDE_DIR BLIS_LIBRARY)
if(FOURFOLD_BLIS AND BLIS_INCLUDE_DIR AND BLIS_LIBRARY)
  file(STRINGS ${BLIS_INCLUDE_DIR}/blis.h blis_threads REGEX "define BLIS_ENABLE_OPENMP$")
  if(blis_threads)
    other_blas_library(BLIS ${BLIS_INCLUDE_DIR} ${BLIS_LIBRARY})
    string(APPEND other_blas ", BLIS")
  endif()
endif()

# --- MKL: its file for pkg-config names it before all that a program links; here it is linked after OpenBLAS
option(FOURFOLD_MKL "Use MKL for products where pkg-config finds it" ON)
pkg_check_modules(MKL QUIET mkl-dynamic-lp64-gomp)
set(mkl_libraries "")
if(FOURFOLD_MKL AND MKL_FOUND AND EXISTS ${MKL_INCLUDEDIR}/mkl_cblas_64.h)
  foreach(part intel_lp64 gnu_thread core)
    file(GLOB found ${MKL_LIBDIR}/libmkl_${part}.so ${MKL_LIBDIR}/libmkl_${part}.so.*)
    list(SUBLIST found 0 1 found)
    list(APPEND mkl_libraries ${found})
  endforeach()
endif()
list(LENGTH mkl_libraries mkl_parts)
if(mkl_parts EQUAL 3)
  # The parts need each other without naming each other.
  other_blas_library(MKL ${MKL_INCLUDEDIR} "-Wl,--push-state,--no-as-needed" ${mkl_libraries} "-Wl,--pop-state")
  string(APPEND other_blas ", MKL ${MKL_VERSION}")
endif()

# NCCL in the layouts of the system, modules, conda, Python wheels and toolkits. Sets NCCL_FOUND, NCCL_VERSION,
# NCCL_INCLUDE_DIR, NCCL_LIBRARY and the target NCCL::nccl, or NCCL_PROBLEM. Wheels hold only versioned names of the
# library.
include(${CMAKE_CURRENT_LIST_DIR}/CudaPackageHints.cmake)
cuda_package_hints(hints nccl NCCL_ROOT NCCL_HOME NCCL_PATH EBROOTNCCL)
list(APPEND hints $ENV{NVHPC_ROOT}/comm_libs/nccl)
find_path(NCCL_INCLUDE_DIR NAMES nccl.h HINTS ${hints} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${hints} PATH_SUFFIXES lib64 lib lib/x64)
cuda_package_version(NCCL_VERSION "${NCCL_INCLUDE_DIR}/nccl.h" NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
cuda_package_check(NCCL NCCL 2.19
  "install libnccl-dev or the wheel nvidia-nccl-cu12 or -cu13 as the toolkit is, or set NCCL_ROOT"
  nccl.h "${NCCL_INCLUDE_DIR}" libnccl.so "${NCCL_LIBRARY}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR NCCL_IS_USABLE
                                  VERSION_VAR NCCL_VERSION REASON_FAILURE_MESSAGE "${NCCL_PROBLEM}")
if(NCCL_FOUND AND NOT TARGET NCCL::nccl AND NOT CMAKE_SCRIPT_MODE_FILE)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

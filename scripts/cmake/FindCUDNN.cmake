# cuDNN in the layouts of the system, modules, conda, Python wheels and toolkits. Sets CUDNN_FOUND, CUDNN_VERSION,
# CUDNN_INCLUDE_DIR, CUDNN_LIBRARY and the target CUDNN::cudnn, or CUDNN_PROBLEM. Wheels hold only versioned names of
# the library.
include(${CMAKE_CURRENT_LIST_DIR}/CudaPackageHints.cmake)
cuda_package_hints(hints cudnn CUDNN_ROOT CUDNN_PATH CUDNN_HOME EBROOTCUDNN)
find_path(CUDNN_INCLUDE_DIR NAMES cudnn_version.h HINTS ${hints} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 NAMES_PER_DIR HINTS ${hints} PATH_SUFFIXES lib64 lib lib/x64)
cuda_package_version(CUDNN_VERSION "${CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
cuda_package_check(CUDNN cuDNN 9.0
  "install libcudnn9-dev or the wheel nvidia-cudnn-cu12 or -cu13 as the toolkit is, or set CUDNN_ROOT"
  cudnn_version.h "${CUDNN_INCLUDE_DIR}" libcudnn.so "${CUDNN_LIBRARY}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR CUDNN_IS_USABLE
                                  VERSION_VAR CUDNN_VERSION REASON_FAILURE_MESSAGE "${CUDNN_PROBLEM}")
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn AND NOT CMAKE_SCRIPT_MODE_FILE)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                                                INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

# The headers of cudnn-frontend, which need no library of their own. Sets CUDNNFrontend_FOUND, CUDNNFrontend_VERSION,
# CUDNN_FRONTEND_INCLUDE_DIR and the target CUDNN::frontend, or CUDNNFrontend_PROBLEM: 1.13 is the first with all names
# that are used. A wheel puts them in include/ among the Python packages.
include(${CMAKE_CURRENT_LIST_DIR}/CudaPackageHints.cmake)
cuda_package_hints(hints cudnn_frontend CUDNN_FRONTEND_ROOT CUDNN_FRONTEND_PATH)
find_path(CUDNN_FRONTEND_INCLUDE_DIR NAMES cudnn_frontend.h HINTS ${hints} PATH_SUFFIXES include)
cuda_package_version(CUDNNFrontend_VERSION "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h"
                     CUDNN_FRONTEND_MAJOR_VERSION CUDNN_FRONTEND_MINOR_VERSION CUDNN_FRONTEND_PATCH_VERSION)
cuda_package_check(CUDNNFrontend cudnn-frontend 1.13
  "install libcudnn-frontend-dev or the wheel nvidia-cudnn-frontend, or set CUDNN_FRONTEND_ROOT"
  cudnn_frontend.h "${CUDNN_FRONTEND_INCLUDE_DIR}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNNFrontend REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR CUDNNFrontend_IS_USABLE
                                  VERSION_VAR CUDNNFrontend_VERSION REASON_FAILURE_MESSAGE "${CUDNNFrontend_PROBLEM}")
if(CUDNNFrontend_FOUND AND NOT TARGET CUDNN::frontend AND NOT CMAKE_SCRIPT_MODE_FILE)
  add_library(CUDNN::frontend INTERFACE IMPORTED)
  # Without its own copy of nlohmann-json: nothing here writes graphs to files.
  set_target_properties(CUDNN::frontend PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_FRONTEND_INCLUDE_DIR}
                                                   INTERFACE_COMPILE_DEFINITIONS CUDNN_FRONTEND_SKIP_JSON_LIB)
endif()
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR)

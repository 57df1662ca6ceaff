# Run by cmake -P: the find modules of scripts/cmake find made-up packages in every layout, with their versions.
#   cmake -DMODULES=scripts/cmake -DSCRATCH=folder -P find_cuda_packages.cmake
cmake_minimum_required(VERSION 3.24)
set(CMAKE_MODULE_PATH ${MODULES})

# make(FOLDER HEADER TEXT [LIBRARY...])
function(make folder header text)
  file(WRITE ${folder}/include/${header} "${text}")
  foreach(library ${ARGN})
    file(WRITE ${folder}/${library} "")
  endforeach()
endfunction()

# Every search is a new cmake: what was found before is remembered.
if(DEFINED PACKAGE)
  set(CMAKE_FIND_LIBRARY_PREFIXES lib)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
  set(CMAKE_FIND_USE_SYSTEM_PATH OFF) # neither /usr nor PATH of the machine that runs the test
  set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
  set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
  find_package(${PACKAGE} QUIET)
  string(TOUPPER ${PACKAGE} upper)
  set(got "${${PACKAGE}_FOUND} ${${PACKAGE}_VERSION} ${${upper}_LIBRARY}")
  string(STRIP "${got}" got)
  if(NOT got STREQUAL EXPECTED)
    message(FATAL_ERROR "${PACKAGE}: got '${got}', expected '${EXPECTED}'")
  endif()
  return()
endif()

function(expect package expected)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=CUDNN_ROOT --unset=CUDNN_PATH --unset=CUDNN_HOME --unset=EBROOTCUDNN --unset=NCCL_ROOT
            --unset=NCCL_HOME --unset=NCCL_PATH --unset=EBROOTNCCL --unset=NVHPC_ROOT --unset=CUDA_HOME --unset=CONDA_PREFIX
            --unset=CUDNN_FRONTEND_ROOT --unset=CUDNN_FRONTEND_PATH ${ARGN}
            ${CMAKE_COMMAND} -DMODULES=${MODULES} -DPACKAGE=${package} "-DEXPECTED=${expected}"
            -DFOURFOLD_PYTHON_PACKAGES=${SCRATCH}/wheels -P ${CMAKE_CURRENT_LIST_FILE}
    RESULT_VARIABLE result ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH}/wheels)
expect(CUDNN "FALSE  CUDNN_LIBRARY-NOTFOUND")
set(cudnn "#define CUDNN_MAJOR 10\n#define CUDNN_MINOR 2\n#define CUDNN_PATCHLEVEL 0\n")
set(nccl "#define NCCL_MAJOR 2\n#define NCCL_MINOR 28\n#define NCCL_PATCH 9\n")
set(frontend "#define CUDNN_FRONTEND_MAJOR_VERSION 1\n#define CUDNN_FRONTEND_MINOR_VERSION 9\n#define CUDNN_FRONTEND_PATCH_VERSION 0\n")
make(${SCRATCH}/wheels/nvidia/cudnn cudnn_version.h ${cudnn} lib/libcudnn.so.9)
make(${SCRATCH}/wheels/nvidia/nccl nccl.h ${nccl} lib/libnccl.so.2)
make(${SCRATCH}/wheels cudnn_frontend.h "")
make(${SCRATCH}/wheels cudnn_frontend_version.h ${frontend})
make(${SCRATCH}/module cudnn_version.h ${cudnn} lib64/libcudnn.so)
make(${SCRATCH}/conda nccl.h ${nccl} lib/libnccl.so)
expect(CUDNN "TRUE 10.2.0 ${SCRATCH}/wheels/nvidia/cudnn/lib/libcudnn.so.9")
expect(CUDNN "TRUE 10.2.0 ${SCRATCH}/module/lib64/libcudnn.so" EBROOTCUDNN=${SCRATCH}/module)
expect(NCCL "TRUE 2.28.9 ${SCRATCH}/wheels/nvidia/nccl/lib/libnccl.so.2")
expect(NCCL "TRUE 2.28.9 ${SCRATCH}/conda/lib/libnccl.so" CONDA_PREFIX=${SCRATCH}/conda)
expect(CUDNNFrontend "TRUE 1.9.0")

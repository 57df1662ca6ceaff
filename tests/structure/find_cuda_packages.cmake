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
  if(PACKAGE STREQUAL "default")
    include(${MODULES}/CudaDefault.cmake)
    if(NOT "${fourfold_cuda_default} ${FOURFOLD_GPU_ARCHITECTURE}${FOURFOLD_CUDA_REASON}" STREQUAL EXPECTED)
      message(FATAL_ERROR "got '${fourfold_cuda_default} ${FOURFOLD_GPU_ARCHITECTURE}${FOURFOLD_CUDA_REASON}', expected '${EXPECTED}'")
    endif()
    return()
  elseif(PACKAGE MATCHES "^CUDA::(.*)")
    include(${MODULES}/CudaPackageHints.cmake)
    set(CUDAToolkit_VERSION_MAJOR $ENV{MAJOR})
    cuda_toolkit_library(${CMAKE_MATCH_1} ${CMAKE_MATCH_1}.h cuda_${CMAKE_MATCH_1})
    set(${PACKAGE}_FOUND "${CUDA_${CMAKE_MATCH_1}_LIBRARY}")
  else()
    find_package(${PACKAGE} QUIET)
  endif()
  string(TOUPPER ${PACKAGE} upper)
  set(got "${${PACKAGE}_FOUND} ${${PACKAGE}_VERSION} ${${upper}_LIBRARY}")
  string(STRIP "${got}" got)
  if(EXPECTED MATCHES "^FALSE (.*)")
    string(FIND "${${PACKAGE}_PROBLEM}" "${CMAKE_MATCH_1}" place)
    if(${PACKAGE}_FOUND OR place EQUAL -1)
      message(FATAL_ERROR "${PACKAGE}: got '${got}' and '${${PACKAGE}_PROBLEM}', expected '${EXPECTED}'")
    endif()
  elseif(NOT got STREQUAL EXPECTED)
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
            -DFOURFOLD_PYTHON_PACKAGES=${SCRATCH}/${wheels} ${variables} -P ${CMAKE_CURRENT_LIST_FILE}
    RESULT_VARIABLE result ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${text}")
  endif()
endfunction()

function(version_text out prefix major minor patch suffix)
  set(${out} "#define ${prefix}_MAJOR${suffix} ${major}\n#define ${prefix}_MINOR${suffix} ${minor}\n#define ${prefix}_${patch}\n" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
set(wheels wheels)
file(MAKE_DIRECTORY ${SCRATCH}/wheels)
# What is missing, and how to get it.
expect(CUDNN "FALSE cuDNN: cudnn_version.h was not found: install libcudnn9-dev or the wheel nvidia-cudnn-cu12")
expect(NCCL "FALSE NCCL: nccl.h was not found: install libnccl-dev or the wheel nvidia-nccl-cu12")
expect(CUDNNFrontend "FALSE cudnn-frontend: cudnn_frontend.h was not found: install libcudnn-frontend-dev or the wheel")

# Wheels, for CUDA 12 and for 13; a version of two digits.
version_text(cudnn CUDNN 10 2 "PATCHLEVEL 0" "")
version_text(nccl NCCL 2 28 "PATCH 9" "")
version_text(frontend CUDNN_FRONTEND 1 13 "PATCH_VERSION 0" _VERSION)
make(${SCRATCH}/wheels/nvidia/cudnn cudnn_version.h ${cudnn} lib/libcudnn.so.9)
make(${SCRATCH}/wheels/nvidia/nccl nccl.h ${nccl} lib/libnccl.so.2)
make(${SCRATCH}/wheels cudnn_frontend.h "")
make(${SCRATCH}/wheels cudnn_frontend_version.h ${frontend})
make(${SCRATCH}/wheels/nvidia/cuda_runtime cuda_runtime.h "" lib/libcudart.so.12)
expect(CUDNN "TRUE 10.2.0 ${SCRATCH}/wheels/nvidia/cudnn/lib/libcudnn.so.9")
expect(NCCL "TRUE 2.28.9 ${SCRATCH}/wheels/nvidia/nccl/lib/libnccl.so.2")
expect(CUDNNFrontend "TRUE 1.13.0")
file(REMOVE_RECURSE ${SCRATCH}/wheels/nvidia/cuda_runtime)
make(${SCRATCH}/wheels/nvidia/cu13 cuda_runtime.h "" lib/libcudart.so.13)
expect(CUDNN "TRUE 10.2.0 ${SCRATCH}/wheels/nvidia/cudnn/lib/libcudnn.so.9")
expect(NCCL "TRUE 2.28.9 ${SCRATCH}/wheels/nvidia/nccl/lib/libnccl.so.2")

# What belongs to the toolkit, in wheels of CUDA 12 and of 13; another major version is not taken.
make(${SCRATCH}/wheels/nvidia/cuda_nvrtc nvrtc.h "" lib/libnvrtc.so.12)
make(${SCRATCH}/wheels/nvidia/cu13 cupti.h "" lib/libcupti.so.13)
expect(CUDA::nvrtc "${SCRATCH}/wheels/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" MAJOR=12)
expect(CUDA::cupti "${SCRATCH}/wheels/nvidia/cu13/lib/libcupti.so.13" MAJOR=13)
expect(CUDA::cupti "" MAJOR=12)

# Modules, conda, the toolkit's folder: all before wheels but the last.
make(${SCRATCH}/module cudnn_version.h ${cudnn} lib64/libcudnn.so)
make(${SCRATCH}/conda nccl.h ${nccl} lib/libnccl.so)
make(${SCRATCH}/hpc/comm_libs/nccl nccl.h ${nccl} lib/libnccl.so)
make(${SCRATCH}/toolkit cudnn_version.h ${cudnn} lib64/libcudnn.so)
expect(CUDNN "TRUE 10.2.0 ${SCRATCH}/module/lib64/libcudnn.so" EBROOTCUDNN=${SCRATCH}/module)
expect(NCCL "TRUE 2.28.9 ${SCRATCH}/conda/lib/libnccl.so" CONDA_PREFIX=${SCRATCH}/conda)
expect(NCCL "TRUE 2.28.9 ${SCRATCH}/conda/lib/libnccl.so" NCCL_HOME=${SCRATCH}/conda CONDA_PREFIX=${SCRATCH}/hpc)
set(wheels no-wheels)
expect(NCCL "TRUE 2.28.9 ${SCRATCH}/hpc/comm_libs/nccl/lib/libnccl.so" NVHPC_ROOT=${SCRATCH}/hpc)
expect(CUDNN "TRUE 10.2.0 ${SCRATCH}/toolkit/lib64/libcudnn.so" CUDA_HOME=${SCRATCH}/toolkit)

# Too old; headers alone; a library alone; headers that do not tell.
version_text(cudnn CUDNN 8 9 "PATCHLEVEL 7" "")
version_text(nccl NCCL 2 17 "PATCH 1" "")
version_text(frontend CUDNN_FRONTEND 1 9 "PATCH_VERSION 0" _VERSION)
make(${SCRATCH}/old cudnn_version.h ${cudnn} lib/libcudnn.so lib/libnccl.so)
make(${SCRATCH}/old nccl.h ${nccl})
make(${SCRATCH}/old cudnn_frontend.h "")
make(${SCRATCH}/old cudnn_frontend_version.h ${frontend})
expect(CUDNN "FALSE cuDNN: version 8.9.7 was found, 9.0 or later is needed" CUDNN_ROOT=${SCRATCH}/old)
expect(NCCL "FALSE NCCL: version 2.17.1 was found, 2.19 or later is needed" NCCL_ROOT=${SCRATCH}/old)
expect(CUDNNFrontend "FALSE version 1.9.0 was found, 1.13 or later is needed" CUDNN_FRONTEND_ROOT=${SCRATCH}/old)
make(${SCRATCH}/half cudnn_version.h ${cudnn} lib/libnccl.so)
make(${SCRATCH}/half cudnn_frontend.h "")
expect(CUDNN "FALSE cuDNN: libcudnn.so was not found" CUDNN_ROOT=${SCRATCH}/half)
expect(NCCL "FALSE NCCL: nccl.h was not found" NCCL_ROOT=${SCRATCH}/half)
expect(CUDNNFrontend "FALSE its headers do not tell their version" CUDNN_FRONTEND_ROOT=${SCRATCH}/half)

# Built for CUDA by itself: where a GPU that is new enough and nvcc are here.
foreach(case "9.0|AUTO 90" "12.1|AUTO 121" "7.5|OFF , the default here: the GPU has compute capability 7.5; kernels need 8.0 or later"
             "NVIDIA-SMI has failed|OFF , the default here: no NVIDIA GPU answers on this machine")
  string(REGEX MATCH "^(.*)\\|(.*)$" whole "${case}")
  set(wanted "${CMAKE_MATCH_2}")
  file(WRITE ${SCRATCH}/nvidia-smi "#!/bin/sh\necho '${CMAKE_MATCH_1}'\n")
  file(CHMOD ${SCRATCH}/nvidia-smi PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(variables -DFOURFOLD_NVIDIA_SMI=${SCRATCH}/nvidia-smi -DFOURFOLD_NVCC=/nvcc)
  expect(default "${wanted}")
endforeach()

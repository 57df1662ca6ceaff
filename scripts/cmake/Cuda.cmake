# Finds the CUDA toolkit and what goes with it; sets fourfold_cuda and cuda_state. Defines
#   fourfold_cuda_room(ROOM [LIBRARY...])
# the library fourfold_ROOM_cuda of src/ROOM/cuda, which knows fourfold_ROOM.
# Each architecture takes two minutes of a core; without being asked for CUDA, one is built.
set(default_architectures 90)
if(FOURFOLD_CUDA STREQUAL "ON")
  set(default_architectures "80-real;90")
endif()
set(FOURFOLD_CUDA_ARCHITECTURES "${default_architectures}" CACHE STRING
    "GPUs to build for, as CMAKE_CUDA_ARCHITECTURES: 80-real;90 is machine code for A100 and H100 and PTX for later ones")
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})

# A compiler that is not in PATH: that of the toolkit in its usual place.
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(FOURFOLD_NVCC nvcc HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(FOURFOLD_NVCC)
  if(FOURFOLD_NVCC)
    set(ENV{CUDACXX} ${FOURFOLD_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${FOURFOLD_CUDA_ARCHITECTURES})
check_language(CUDA)
set(missing "")
if(NOT CMAKE_CUDA_COMPILER)
  set(missing "nvcc was not found; set CUDA_HOME or CMAKE_CUDA_COMPILER")
else()
  enable_language(CUDA)
  find_package(CUDAToolkit)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.2)
    set(missing "nvcc is ${CMAKE_CUDA_COMPILER_VERSION}; 12.2 or later is needed")
  elseif(NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublasLt)
    set(missing "the toolkit's cudart_static or cublasLt was not found; set CUDAToolkit_ROOT")
  endif()
endif()
if(missing AND FOURFOLD_CUDA STREQUAL "ON")
  message(FATAL_ERROR "FOURFOLD_CUDA=ON, but ${missing}")
elseif(missing)
  set(cuda_state "no: ${missing}")
  return()
endif()

set(fourfold_cuda ON)
set(cuda_state "${CMAKE_CUDA_COMPILER_VERSION} for ${FOURFOLD_CUDA_ARCHITECTURES} in ${CUDAToolkit_LIBRARY_DIR}")
foreach(package CUDNN NCCL CUDNNFrontend)
  find_package(${package} QUIET)
  if(${package}_FOUND)
    string(APPEND cuda_state ", ${package} ${${package}_VERSION}")
  else()
    string(APPEND cuda_state ", no ${package}")
  endif()
endforeach()
# Attention by cuDNN takes both the library and the headers: 1.13 is the first with all names that are used. The headers
# also call nvrtc, for kernels that are not used here.
set(fourfold_cudnn "")
set(fourfold_without cudnn_attention.cpp) # of two files that offer the same, the one that is left out
if(CUDNN_FOUND AND TARGET CUDA::nvrtc AND CUDNNFrontend_FOUND AND CUDNNFrontend_VERSION VERSION_GREATER_EQUAL 1.13)
  set(fourfold_cudnn CUDNN::cudnn CUDNN::frontend CUDA::nvrtc)
  set(fourfold_without no_cudnn.cpp)
elseif(CUDNNFrontend_FOUND)
  string(APPEND cuda_state " (attention by cuDNN needs cuDNN, nvrtc and CUDNNFrontend 1.13)")
endif()
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)

function(fourfold_cuda_room name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/cuda/*.cu ${PROJECT_SOURCE_DIR}/src/${name}/cuda/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/${fourfold_without}$")
  add_library(fourfold_${name}_cuda STATIC ${sources})
  # The options of all C++ files are not for nvcc.
  get_target_property(options fourfold_${name}_cuda COMPILE_OPTIONS)
  set_target_properties(fourfold_${name}_cuda PROPERTIES COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
  # constexpr functions of base/ and op/ are called on the device as they are.
  target_compile_options(fourfold_${name}_cuda PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr$<$<BOOL:${FOURFOLD_WERROR}>:;-Werror=all-warnings>>")
  target_link_libraries(fourfold_${name}_cuda PUBLIC fourfold_${name} PRIVATE ${ARGN} CUDA::cudart_static)
endfunction()

# What the program says of its own CUDA parts: kernels/cuda/devices.h.
function(fourfold_cuda_facts)
  string(REPLACE ";" "," architectures "${FOURFOLD_CUDA_ARCHITECTURES}")
  if(architectures STREQUAL "native" AND CMAKE_CUDA_ARCHITECTURES_NATIVE)
    string(REPLACE ";" "," architectures "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
  endif()
  set_source_files_properties(
    ${PROJECT_SOURCE_DIR}/src/kernels/cuda/devices.cpp
    PROPERTIES COMPILE_DEFINITIONS "FOURFOLD_CUDA_ARCHITECTURES=\"${architectures}\"")
  foreach(package CUDNN NCCL)
    set(library "")
    if(${package}_FOUND)
      set(library ${${package}_LIBRARY})
    endif()
    list(APPEND definitions "FOURFOLD_${package}_VERSION=\"${${package}_VERSION}\"" "FOURFOLD_${package}_LIBRARY=\"${library}\"")
  endforeach()
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/kernels/cuda/library_versions.cpp
                              PROPERTIES COMPILE_DEFINITIONS "${definitions}")
  target_link_libraries(fourfold_kernels_cuda PRIVATE ${CMAKE_DL_LIBS})
endfunction()

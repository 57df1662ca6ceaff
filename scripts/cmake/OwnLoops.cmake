# The own loops of src/kernels/cpu for levels of instructions above that of the program, in the same binary: where FOURFOLD_ARCH
# is x86-64-v2 those of v3 and v4, where it is x86-64-v3 those of v4. src/kernels/cpu/own_loops.h chooses among them when the
# program runs.
#
# Each level is compiled from the same files, and linked into one object of which all names but that of its table of functions
# become local. So no function that a header defines can be taken from a higher level by code that runs on a lower one. Nothing
# of a level may run when the program starts, before it is chosen: RefuseInitializers.cmake looks.
set(fourfold_levels "")
if(FOURFOLD_ARCH STREQUAL "x86-64-v2")
  set(fourfold_levels v3 v4)
elseif(FOURFOLD_ARCH STREQUAL "x86-64-v3")
  set(fourfold_levels v4)
endif()
if(FOURFOLD_SANITIZE)
  set(fourfold_levels "") # a sanitizer's tables of globals do not outlive local names
endif()

file(GLOB own_loops CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cpu/*.cpp)
list(FILTER own_loops EXCLUDE REGEX "/(levels|libraries|onednn|openblas|prepare|target)[.]cpp$")
set(loops_symbol _ZN8fourfold7kernels3cpu10loops_hereEv)

set(declarations "")
set(entries "")
foreach(level IN LISTS fourfold_levels)
  set(name fourfold_loops_${level})
  add_library(${name} OBJECT ${own_loops})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE fourfold_machine OpenMP::OpenMP_CXX)
  # Unique symbols, as GCC makes them of inline variables, cannot become local.
  target_compile_options(${name} PRIVATE -march=x86-64-${level} ${fourfold_loop_options} -fno-gnu-unique)
  set(object ${CMAKE_BINARY_DIR}/generated/${name}.o)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ld -r --force-group-allocation -o ${object}.all $<TARGET_OBJECTS:${name}>
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=${loops_symbol} ${object}.all ${object}
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym ${loops_symbol}=${name} ${object}
    COMMAND ${CMAKE_COMMAND} -DOBJECT=${object} -DOBJDUMP=${CMAKE_OBJDUMP} -P
            ${PROJECT_SOURCE_DIR}/scripts/cmake/RefuseInitializers.cmake
    DEPENDS ${name} $<TARGET_OBJECTS:${name}> ${PROJECT_SOURCE_DIR}/scripts/cmake/RefuseInitializers.cmake
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Linking the own loops for x86-64-${level}")
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(fourfold_kernels PRIVATE ${object})
  string(APPEND declarations "extern \"C\" const fourfold::kernels::cpu::OwnLoops& ${name}();\n")
  string(APPEND entries "      {\"x86-64-${level}\", [] { return __builtin_cpu_supports(\"x86-64-${level}\") != 0; }, ${name}},\n")
endforeach()

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/built_levels.cpp CONTENT [[
// Written by scripts/cmake/OwnLoops.cmake.
#include <vector>

#include "kernels/cpu/levels.h"

@declarations@
namespace fourfold::kernels::cpu {

std::span<const BuiltLevel> built_levels() {
  static const std::vector<BuiltLevel> levels = {
@entries@  };
  return levels;
}

}  // namespace fourfold::kernels::cpu
]] @ONLY)
target_sources(fourfold_kernels PRIVATE ${CMAKE_BINARY_DIR}/generated/built_levels.cpp)

# Ends with an error where OBJECT has functions that run when a program starts: they would run on CPUs that do not have their
# instructions. Such a function sets a variable of a namespace that is not constexpr, in a source or in a header.
execute_process(COMMAND ${OBJDUMP} -h ${OBJECT} OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
if(sections MATCHES "[.](init_array|ctors)")
  execute_process(COMMAND ${OBJDUMP} -t -C ${OBJECT} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "_GLOBAL__sub_I_[^\n]*" initializers "${symbols}")
  file(REMOVE ${OBJECT})
  message(FATAL_ERROR "${OBJECT} has code that runs when the program starts, of sources whose first names are "
                      "${initializers}. Make their variables constexpr, or static within functions.")
endif()

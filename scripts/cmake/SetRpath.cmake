# cmake -DFOLDER=... -P SetRpath.cmake: programs in FOLDER/bin look for libraries in FOLDER/lib, and then where the loader looks; no
# longer where they lay when they were linked. Their RPATH also serves the libraries, which keep none of their own.
file(GLOB programs ${FOLDER}/bin/*)
list(FILTER programs EXCLUDE REGEX "\\.so$")
foreach(program ${programs})
  file(RPATH_SET FILE ${program} NEW_RPATH "$ORIGIN/../lib")
endforeach()
file(GLOB libraries ${FOLDER}/lib/* ${FOLDER}/bin/*.so)
foreach(library ${libraries})
  file(RPATH_REMOVE FILE ${library})
endforeach()

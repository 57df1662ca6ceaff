// What a fuzzed reader is: one function, in the form that libFuzzer calls too.
#pragma once

#include <cstddef>
#include <cstdint>

/// Gives the bytes to a reader. Returns 0 when they are read or refused as they should be; anything
/// else (a crash, an exception, a broken promise through `require`) is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

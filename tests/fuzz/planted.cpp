// A reader with a fault, to see that the driver finds one.
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (text.find("steps: :") != text.npos) std::abort();
  return 0;
}

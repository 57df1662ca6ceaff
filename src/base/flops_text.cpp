#include "base/flops_text.h"

#include <cctype>

#include "base/format.h"
#include "base/units.h"

namespace fourfold {

std::string flops_text(double flops_per_s) {
  std::string number = format_count(flops_per_s);
  std::string prefix = " ";
  if (std::isalpha(static_cast<unsigned char>(number.back())) != 0) {
    prefix = number.back();
    number.pop_back();
  }
  return format("{:>4} {}FLOP/s", number, prefix);
}

}  // namespace fourfold

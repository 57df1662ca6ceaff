// Where the lines of what is measured go: a command says it.
#pragma once

#include <functional>
#include <string>

namespace fourfold::measure {

/// Shows whole lines as they become known.
using Print = std::function<void(const std::string&)>;

}  // namespace fourfold::measure

// One function object of several lambdas, for std::visit: a kind that none of them takes does not
// compile.
#pragma once

namespace fourfold {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace fourfold

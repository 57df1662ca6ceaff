// A process that may have few files open. Header only.
#pragma once

#include <sys/resource.h>

#include <stdexcept>

namespace fourfold::test {

/// Lowers the soft limit to 64 files, and sets back what was before at the end of its life.
class FewFiles {
 public:
  static constexpr rlim_t limit = 64;

  FewFiles() {
    rlimit few{};
    if (getrlimit(RLIMIT_NOFILE, &usual_) != 0) throw std::runtime_error("getrlimit");
    few = usual_;
    few.rlim_cur = limit;
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("setrlimit");
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &usual_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit usual_{};
};

}  // namespace fourfold::test

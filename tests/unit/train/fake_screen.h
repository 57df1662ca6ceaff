// A screen of any width that keeps what it is given.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/screen.h"
#include "base/styled_text.h"

namespace fourfold::train {

class FakeScreen : public Screen {
 public:
  explicit FakeScreen(int columns = 0, bool is_live = false)
      : columns_(columns), is_live_(is_live) {}

  void say(Level, std::string_view text) override { lines.emplace_back(text); }
  void row(std::span<const Cell> cells) override {
    lines.push_back(without_styles(fit(cells, columns_)));
  }
  bool is_live() const override { return is_live_; }
  int columns() const override { return columns_; }
  void status(std::string_view text) override {
    const std::lock_guard lock(mutex_);
    statuses_.push_back(without_styles(text));
  }
  std::vector<std::string> statuses() {
    const std::lock_guard lock(mutex_);
    return statuses_;
  }

  std::vector<std::string> lines;

 private:
  int columns_;
  bool is_live_;
  std::mutex mutex_;
  std::vector<std::string> statuses_;
};

}  // namespace fourfold::train

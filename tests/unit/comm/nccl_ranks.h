// Ranks that are threads and have an NcclWorld each, over an NCCL that is made up.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/nccl_world.h"
#include "comm/threads.h"
#include "support/fake_nccl.h"
#include "support/fake_stream.h"

namespace fourfold::comm {

using test::FakeNccl;
using test::FakeStream;
using Calls = std::vector<std::string>;

inline GroupSpec spec_of(std::string name, const std::vector<std::size_t>& ranks) {
  GroupSpec spec{std::move(name), {}, 0};
  for (const std::size_t rank : ranks) spec.members.emplace_back(rank);
  return spec;
}

class Ranks {
 public:
  explicit Ranks(std::size_t count) : count_(count) {}

  /// Runs `body` on every rank.
  void run(const std::function<void(World&, NcclWorld&)>& body) {
    ThreadJob job(count_);
    job.run([&](World& world) {
      NcclWorld device(world, can_register ? nccl.api() : nccl.api_without_registration(), options);
      body(world, device);
      // All are done before one of them leaves.
      world.barrier();
    });
  }

  /// What run() throws; "" where it does not.
  std::string fault_of(const std::function<void(World&, NcclWorld&)>& body,
                       ExitCode code = ExitCode::environment) {
    try {
      run(body);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "";
  }

  FakeNccl nccl;
  NcclOptions options;
  bool can_register = true;

 private:
  std::size_t count_;
};

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fourfold::comm

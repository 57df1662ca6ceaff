// Ranks that are threads and have a GPU each that is not there, over an NCCL that is made up: what
// passes between them is part of their graphs. Code is loaded late, and devices that wait for one
// another are found by standstill.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"
#include "run/backend.h"
#include "support/fake_device.h"
#include "support/fake_nccl.h"
#include "support/small_run.h"
#include "support/standstill.h"

namespace fourfold::test {

/// One at a time.
class FakeGpus {
 public:
  explicit FakeGpus(std::size_t ranks, unsigned seed = 1);
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  /// On the thread of the rank, which drives its device.
  std::unique_ptr<run::Backend> make_backend(comm::World& world);
  /// The setup, for GridRun, while this lives.
  RunSetup on_gpus(RunSetup setup) {
    setup.backend = [this](comm::World& world) { return make_backend(world); };
    return setup;
  }

  FakeDevice& device(std::size_t rank) { return *devices_[rank]; }

 private:
  FakeNccl nccl_;
  Standstill together_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
};

}  // namespace fourfold::test
